"""What the documents promise: the README's two commands and its output, the examples, the links, the extras."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pathexp as px
from pathexp.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS_MORE = {
    "adapter_contrast.py", "choose_vocabulary.py", "indirect_objects.py", "many_prompts.py", "pack_bundled.py", "train_bundled.py", "train_periodic.py",
}  # fmt: skip
"""Examples that make the trained models, from a corpus, with torch, or need a model of another package."""


def test_exactly_two_commands_make_their_own_environment():
    commands = re.findall(r"^python3 -m venv .*$", README, re.M)
    assert len(commands) == 2
    run, test = commands
    assert run.endswith("pathexp expand") and test.endswith("python -m pytest")
    assert all(" && " in command and "\n" not in command for command in commands)


def test_the_first_screen_shows_what_the_command_prints(capsys, monkeypatch):
    """The block of the README is the real output; the last digits of errors may differ between machines."""
    monkeypatch.setenv("COLUMNS", "80")
    block = re.search(r"```text\n(.*?)```", README, re.S)
    assert block and main(["expand"]) == 0
    printed = capsys.readouterr().out

    def settled(text):
        return re.sub(r"\d\.\d\de-\d\d|worst at position.*", "…", text).strip()

    assert settled(block[1]) == settled(printed)


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in EXAMPLES if p.name not in NEEDS_MORE], ids=lambda p: p.name)
def test_examples_run_and_show_a_verdict(path):
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "paths add up to the" in done.stdout


def test_torch_is_only_in_the_training_scripts():
    for path in [*ROOT.glob("pathexp/**/*.py"), *ROOT.glob("examples/*.py")]:
        if re.search(r"^\s*(import|from) torch", path.read_text(), re.M):
            assert path.name in ("train_bundled.py", "train_periodic.py"), path


def test_what_the_readme_says_of_contrasts_is_printed(capsys):
    said = README.split("```")[0]
    assert main(["contrast"]) == 0
    printed = capsys.readouterr().out
    for words in ("+1.6904  E L0H2.V L1H3.K U", "+6.1177", "625 paths"):
        assert words in said and words in printed


@pytest.mark.parametrize(
    "page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]
)
def test_links_lead_somewhere(page):
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", (ROOT / page).read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (folder / target).exists(), f"{page} links to {target}"


@pytest.mark.parametrize(
    "page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name
)
def test_code_is_fenced_so_that_code_hosts_show_it_as_code(page):
    inside = False
    for line in page.read_text().splitlines():
        inside ^= line.startswith("```")
        assert inside or not line.startswith(">>> "), f"{page.name}: {line}"
    assert not inside, f"{page.name}: a fence is never closed"


def test_every_page_is_linked_from_the_readme():
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.name}" in README, f"{page.name} is nowhere a user would look"


def test_every_command_is_in_the_readme():
    from pathexp.cli.table import TABLE

    for command in TABLE:
        assert f"`pathexp {command}" in README, command


def test_every_public_name_is_on_a_page():
    pages = "\n".join(path.read_text() for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    code = "\n".join(re.findall(r"^(?:>>>|\.\.\.) .*$|`[^`\n]+`", pages, re.M))
    missing = [name for name in px.__all__ if not re.search(rf"\b{name}\b", code)]
    assert not missing, f"public, and on no page: {', '.join(missing)}"


def test_public_names_are_few():
    assert len(px.__all__) <= 65


def test_every_public_name_is_in_the_reference():
    listed = re.findall(
        r"^\.\. auto(?:function|class|module):: pathexp\.(?:model\.)?(\w+)$",
        (ROOT / "docs/reference.md").read_text(),
        re.M,
    )
    assert sorted(listed) == sorted(px.__all__)


def test_every_page_is_on_the_site():
    index = (ROOT / "docs/index.md").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert page.stem == "index" or re.search(rf"^{page.stem}$", index, re.M), (
            f"{page.name} is not in docs/index.md"
        )


def test_the_core_is_light():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=!~ \[]", requirement)[0] for requirement in project["dependencies"]}
    assert names == {"numpy", "sympy", "networkx", "threadpoolctl"}
    assert project["requires-python"] == ">=3.11"
