"""Models of the Hugging Face Hub: from a cache laid out here, as huggingface_hub lays it out, and from a server on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.errors import LoadError
from pathexp.model.load import hub as ours
from tests.model.load import checkpoints

hub = pytest.importorskip("huggingface_hub.constants")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, which huggingface_hub takes for its own."""
    folder = tmp_path / "home" / "hub"
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(folder))
    return folder


def laid(
    cache: Path, name: str = "org/tiny-llama", commit: str = COMMIT, ref: str = "main", seed: int = 0
) -> Path:
    """One snapshot: files in blobs by their hash, links to them by commit, the commit by ref."""
    place = cache / f"models--{name.replace('/', '--')}"
    snapshot = place / "snapshots" / commit
    for folder in (place / "blobs", place / "refs", snapshot):
        folder.mkdir(parents=True, exist_ok=True)
    whole = checkpoints.folder(place / f"made-{commit}")
    for file in whole.iterdir():
        blob = place / "blobs" / hashlib.sha256(file.read_bytes() + bytes([seed])).hexdigest()
        file.rename(blob)
        (snapshot / file.name).symlink_to(os.path.relpath(blob, snapshot))
    whole.rmdir()
    (place / "refs" / ref).write_text(commit)
    return snapshot


def test_a_name_is_found_in_the_cache(cache: Path) -> None:
    found, expected = (px.load(each) for each in ("org/tiny-llama", laid(cache)))
    assert found.name == "org/tiny-llama" and found.config == expected.config
    np.testing.assert_array_equal(found.run([1, 2, 3]).logits, expected.run([1, 2, 3]).logits)


def test_a_name_without_an_owner_is_one_too(cache: Path) -> None:
    laid(cache, "tiny")
    assert px.load("tiny").name == "tiny"


def test_revisions_are_branches_tags_and_commits(cache: Path) -> None:
    laid(cache)
    old = laid(cache, commit=OTHER, ref="v1")
    config = json.loads((old / "config.json").read_text()) | {"rms_norm_eps": 0.5}
    (old / "config.json").unlink()
    (old / "config.json").write_text(json.dumps(config))
    assert px.load("org/tiny-llama").config.norm_eps != 0.5
    for revision in ("v1", OTHER):
        assert px.load("org/tiny-llama", revision=revision).config.norm_eps == 0.5
    with pytest.raises(
        LoadError, match=r"revision 'v2' is not in the Hugging Face cache .*download=True.*--download"
    ):
        px.load("org/tiny-llama", revision="v2")


def test_bundled_names_and_paths_go_first(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid(cache, "attn-1l")
    assert px.load("attn-1l").config.n_heads == 8
    laid(cache)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org").mkdir()
    checkpoints.folder(tmp_path / "org" / "tiny-llama")
    assert px.load("org/tiny-llama").name == "tiny-llama"


def test_what_is_not_there_is_told_with_both_ways_on(cache: Path) -> None:
    with pytest.raises(
        LoadError, match=r"load\('org/other', download=True\), --download .*hf download org/other"
    ):
        px.load("org/other")
    with pytest.raises(LoadError, match=r"Did you mean 'attn-2l'.*download=True"):
        px.load("attn-2")
    for path in ("./org/other", "org/other/more", "model.npz", "model.gguf", Path("org/other")):
        with pytest.raises(LoadError) as caught:
            px.load(path)
        assert "download" not in str(caught.value)


def test_a_part_of_a_model_is_told(cache: Path) -> None:
    snapshot = laid(cache)
    (snapshot / "model.safetensors").unlink()
    with pytest.raises(
        LoadError,
        match=r"it has no model.safetensors.*what the cache holds of 'org/tiny-llama'.*download=True",
    ):
        px.load("org/tiny-llama")


def test_a_damaged_cache_is_no_model(cache: Path) -> None:
    laid(cache)
    ref = cache / "models--org--tiny-llama" / "refs" / "main"
    for garbage in (b"", b"\xff\xfe", b"nowhere"):
        ref.write_bytes(garbage)
        with pytest.raises(LoadError):
            px.load("org/tiny-llama")


def test_options_of_checkpoints_go_along_and_others_are_refused(cache: Path) -> None:
    snapshot = laid(cache)
    config = json.loads((snapshot / "config.json").read_text()) | {"odd": 1}
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").write_text(json.dumps(config))
    assert px.load("org/tiny-llama", ignore="odd").config
    with pytest.raises(LoadError, match="revision: expected a string"):
        px.load("org/tiny-llama", revision=3)
    with pytest.raises(LoadError, match="download: expected True or False"):
        px.load("org/tiny-llama", download="yes")
    with pytest.raises(LoadError, match="nothing open that download would decide"):
        px.load("attn-1l", download=True)
    with pytest.raises(LoadError, match="nothing open that revision would decide"):
        px.load(snapshot, revision="v1")


def test_without_the_package_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "_hub", lambda: None)
    with pytest.raises(LoadError, match=r"no bundled model and no file.*pathexp\[hf\]"):
        px.load("org/tiny-llama")
    with pytest.raises(LoadError, match=r"need the package huggingface_hub.*pathexp\[hf\]"):
        px.load("org/tiny-llama", download=True)


def run(code: str, **variables: str) -> str:
    """What a fresh process prints, in which the package reads its variables anew."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**kept, **variables}, check=False
    )
    return done.stdout + done.stderr


LOADS = "import pathexp as px; print(px.load('org/tiny-llama'))"


def test_the_variables_of_the_hub_say_where_the_cache_is(cache: Path) -> None:
    laid(cache)
    assert "2 layers" in run(LOADS, HF_HOME=str(cache.parent))
    assert "2 layers" in run(LOADS, HF_HUB_CACHE=str(cache))
    assert "LoadError" in run(LOADS, HF_HOME=str(cache))


def test_the_command_line_takes_a_name(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    laid(cache)
    assert main(["expand", "org/tiny-llama", "--tokens", "1,2,3", "--top", "1"]) == 0
    assert capsys.readouterr().out.startswith("org/tiny-llama: 2 layers")
    assert main(["expand", "org/tiny-llama", "--tokens", "1,2,3", "--revision", "v9"]) == 2
    assert "'v9' is not in the Hugging Face cache" in capsys.readouterr().err


# A server on this machine ----------------------------------------------------------------------------------


@contextmanager
def served(files: dict[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server that answers as the hub does for one model, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            path = self.path.split("?")[0]
            asked.append(path)
            if path.startswith("/api/models/org/tiny-llama"):
                listed = {
                    "id": "org/tiny-llama",
                    "sha": COMMIT,
                    "siblings": [
                        {"rfilename": n, "size": len(c), "blobId": hashlib.sha1(c).hexdigest()}
                        for n, c in files.items()
                    ],
                }
                tree = [
                    {"type": "file", "path": n, "size": len(c), "oid": hashlib.sha1(c).hexdigest()}
                    for n, c in files.items()
                ]
                return self.send(
                    200, json.dumps(tree if "/tree/" in path else listed).encode(), "application/json"
                )
            name = path.rsplit("/", 1)[-1]
            if f"/resolve/{COMMIT}/" in path and name in files:
                return self.send(200, files[name], "application/octet-stream")
            return self.send(404, b"{}", "application/json")

        do_GET = do_HEAD = answer

        def send(self, code: int, content: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def test_download_fetches_what_is_read_and_nothing_else(tmp_path: Path) -> None:
    whole = checkpoints.folder(tmp_path / "llama")
    files = {file.name: file.read_bytes() for file in whole.iterdir()}
    others = {"pytorch_model.bin": b"x", "README.md": b"y", "consolidated.safetensors": b"z"}
    with served(files | others) as (address, asked):
        said = run(LOADS, HF_HOME=str(tmp_path / "home"), HF_ENDPOINT=address)
        assert "LoadError" in said and not asked  # nothing is asked without download=True
        fetch = LOADS.replace("')", "', download=True)")
        said = run(fetch, HF_HOME=str(tmp_path / "home"), HF_ENDPOINT=address)
        assert "Model('org/tiny-llama': 2 layers" in said, said
        assert asked and not any(name in path for path in asked for name in others)
    assert "2 layers" in run(LOADS, HF_HOME=str(tmp_path / "home"))
    assert "Cannot fetch 'org/none'" in run(
        fetch.replace("tiny-llama", "none"), HF_HOME=str(tmp_path / "home"), HF_ENDPOINT="http://127.0.0.1:9"
    )
