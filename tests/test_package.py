"""What is packed: metadata, citation, the files of the page in the wheel, documents and examples in the sdist."""

import ast
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import pathexp as px
from pathexp import installation

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_metadata_names_authors_and_what_it_is():
    assert PROJECT["authors"] == [{"name": "pathexp contributors"}]
    assert all(" :: " in classifier for classifier in PROJECT["classifiers"])
    least = PROJECT["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {least}" in PROJECT["classifiers"]


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, re.M)[1] == px.__version__
    assert PROJECT["license"] in citation and "cff-version: 1.2.0" in citation


def test_extras_that_errors_name_exist():
    named = set()
    for path in (ROOT / "pathexp").rglob("*.py"):
        named |= set(re.findall(r"""extra\(\s*[^,()]+,\s*["'](\w+)["']""", path.read_text()))
        named |= set(re.findall(r"""install_command\(["'](\w+)["']\)""", path.read_text()))
    assert named <= set(PROJECT["optional-dependencies"]) and {"web", "viz", "pandas", "gguf", "hf"} <= named


def test_without_the_web_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(px.PathexpError, match=r"-m pip install '.*\[web\]'$"):
        px.explore(px.load("attn-1l"), "To be")


def test_the_command_that_installs_is_of_the_python_that_runs_and_of_what_is_there(monkeypatch):
    python, *command = shlex.split(installation.install_command("viz"))
    assert python == sys.executable and command[:3] == ["-m", "pip", "install"]
    monkeypatch.setattr("importlib.metadata.distribution", absent)
    monkeypatch.setattr(sys, "executable", "/a place/python")
    assert shlex.split(installation.install_command("viz"))[0] == "/a place/python"
    assert shlex.split(installation.install_command("viz"))[-1] == f"{ROOT}[viz]"
    monkeypatch.setattr(installation, "__file__", "/nowhere/pathexp/installation.py")
    assert shlex.split(installation.install_command("viz"))[-1] == "pathexp[viz]"


def absent(name):
    raise PackageNotFoundError(name)


@pytest.mark.interop
def test_wheel_and_sdist_hold_the_page_and_the_documents(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", tmp_path, ROOT], check=True, capture_output=True
    )
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    for file in (ROOT / "pathexp/page/static").iterdir():
        assert f"pathexp/page/static/{file.name}" in names
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as sdist:
        packed = {name.split("/", 1)[-1] for name in sdist.getnames()}
    assert {
        "docs/explore.md",
        "docs/pictures/explore.png",
        "examples/expand_a_sentence.py",
        "CITATION.cff",
    } <= packed


# What `import pathexp` loads -----------------------------------------------------------------------------


def test_questions_are_imported_when_they_are_asked_for():
    code = (
        "import pathexp, sys\n"
        "early = [name for name in sys.modules if name.startswith(('pathexp.circuits', 'pathexp.page', 'pathexp.cli'))]\n"
        "assert not early, early\n"
        "assert set(pathexp.__all__) <= set(dir(pathexp))\n"
        "from pathexp import *\n"
        "assert callable(attribution) and pathexp.attribution is attribution and 'attribution' in vars(pathexp)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_what_is_imported_later_is_what_type_checkers_see():
    tree = ast.parse((ROOT / "pathexp/__init__.py").read_text())
    shown = {
        alias.name: f".{node.module}"
        for block in tree.body
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in block.body
        for alias in node.names
    }
    assert shown == px._QUESTIONS and shown.keys() <= set(px.__all__)
    for name, place in shown.items():
        assert getattr(px, name) is getattr(sys.modules[f"pathexp{place}"], name)


def test_a_name_that_is_not_there_is_no_attribute():
    with pytest.raises(AttributeError, match=r"module 'pathexp' has no attribute 'atribution'"):
        _ = px.atribution
    assert not hasattr(px, "nothing")
