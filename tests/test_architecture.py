"""The house keeps its arrows: read off the imports, type-only ones too, with one parse of each file."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "pathexp"
LONGEST = 400

FLOORS = {
    **dict.fromkeys(
        (
            "buffers",
            "errors",
            "installation",
            "labels",
            "read_only",
            "replaced_file",
            "startup",
            "turns",
            "version",
            "visible",
            "workers",
        ),
        0,
    ),
    "budget": 1,
    "arguments": 1,
    **dict.fromkeys(("answer", "algebra", "model"), 2),
    "graph": 3,
    "expansion": 4,
    "circuits": 5,
    "page": 6,
    "cli": 7,
    "__main__": 8,
}
"""Arrows point from a higher floor to a lower one, and never across: algebra and model do not know each other."""

OPTIONAL = {
    "workers.py": {"threadpoolctl"},
    "expansion/symbolic.py": {"sympy"},
    "graph/files.py": {"networkx"},
    "installation.py": {"importlib"},
    "graph/network.py": {"networkx"},
    "model/load/gguf_file.py": {"gguf"},
    "model/load/hub.py": {"huggingface_hub"},
    "model/load/tokenizer_json.py": {"tokenizers"},
    "page/server.py": {"asyncio"},
}
"""The only imports inside functions: packages that are optional, or that take long to load."""

NO_ROOMS = {"utils", "util", "helpers", "helper", "common", "misc", "core", "base", "tools", "stuff"}

Import = ast.Import | ast.ImportFrom
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    path: Path

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.path.read_text(encoding="utf-8"))

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def floor(self) -> str:
        return self.name.split("/")[0].removesuffix(".py")

    @cached_property
    def imports(self) -> frozenset[str]:
        """The files of the package that this one imports, those for type checkers included."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, Import)]
        return frozenset(name for node in nodes for name in self._files(node)) - {self.name}

    def _files(self, node: Import) -> Iterator[str]:
        if isinstance(node, ast.Import):
            inside = [alias.name for alias in node.names if alias.name.split(".")[0] == "pathexp"]
            yield from (_file(ROOT.parent.joinpath(*name.split("."))) for name in inside)
        elif node.level or (node.module or "").split(".")[0] == "pathexp":
            start = self.path.parents[node.level - 1] if node.level else ROOT.parent
            where = start.joinpath(*(node.module or "").split(".")) if node.module else start
            yield from (_file(where / alias.name) or _file(where) for alias in node.names)

    def imports_inside_functions(self) -> Iterator[Import]:
        for function in ast.walk(self.tree):
            if isinstance(function, FUNCTIONS):
                yield from (node for node in ast.walk(function) if isinstance(node, Import))


def _file(place: Path) -> str:
    """The file of a dotted name; empty where it is a name inside a module."""
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.exists():
            return path.relative_to(ROOT).as_posix()
    return ""


MODULES = tuple(Module(path) for path in sorted(ROOT.rglob("*.py")))
BY_NAME = {module.name: module for module in MODULES}


def test_every_module_has_a_floor_and_arrows_point_down():
    wrong = [
        f"{module.name} imports {there}"
        for module in MODULES
        if module.floor != "__init__"
        for there in sorted(module.imports)
        if BY_NAME[there].floor != module.floor
        and FLOORS.get(BY_NAME[there].floor, 99) >= FLOORS[module.floor]
    ]
    assert not wrong, "these arrows run up or across:\n" + "\n".join(wrong)


def test_no_circles_type_only_ones_included():
    done: set[str] = set()
    circles: list[str] = []

    def visit(name: str, walked: tuple[str, ...]) -> None:
        if name in walked:
            circles.append(" -> ".join([*walked[walked.index(name) :], name]))
        elif name not in done:
            for there in sorted(BY_NAME[name].imports):
                visit(there, (*walked, name))
            done.add(name)

    for module in MODULES:
        visit(module.name, ())
    left = [circle for circle in circles if not re.fullmatch(BEING_MENDED, circle)]
    assert not left, "circles:\n" + "\n".join(left)


BEING_MENDED = "|".join(
    rf"({files}\.py( -> )?)+" for files in ("algebra/(maps|operations)", "model/(model|forward|trace)")
)
"""Files in which circles of types alone are left."""


def test_imports_inside_functions_are_optional_packages_listed_by_name():
    found: dict[str, set[str]] = {}
    for module in MODULES:
        for node in module.imports_inside_functions():
            found.setdefault(module.name, set()).update(_packages(node))
    assert found == OPTIONAL


def _packages(node: Import) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {"pathexp" if node.level else (node.module or "").split(".")[0]}


def test_no_attribute_is_set_on_a_class_of_another_module():
    wrong = []
    for module in MODULES:
        brought = {
            alias.asname or alias.name
            for node in ast.walk(module.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(module.tree):
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets:
                owner = target.value if isinstance(target, ast.Attribute) else None
                if isinstance(owner, ast.Name) and owner.id in brought:
                    wrong.append(f"{module.name}:{node.lineno}: {ast.unparse(target)}")
    assert not wrong, "set from another module:\n" + "\n".join(wrong)


def test_rooms_have_names_and_are_not_halls():
    named = [module.name for module in MODULES if set(module.name.removesuffix(".py").split("/")) & NO_ROOMS]
    halls = [
        f"{module.name}: {lines} lines"
        for module in MODULES
        if (lines := len(module.path.read_text(encoding="utf-8").splitlines())) > LONGEST
    ]
    assert not named and not halls, "\n".join([*named, *halls])
