"""The house keeps its arrows: read off the imports, not off good intentions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "pathexp"
MODULES = sorted(ROOT.rglob("*.py"))

FLOORS = {
    "errors": 0,
    "kinds": 0.5,
    "answer": 1,
    "algebra": 1,
    "model": 1,
    "graph": 2,
    "expansion": 3,
    "circuits": 4,
    "report": 5,
    "cli": 6,
    "__main__": 7,
}
LAZY = {
    "algebra/workers.py": {"threadpoolctl"},
    "answer/frame.py": {"pandas"},
    "expansion/symbolic.py": {"sympy"},
    "graph/files.py": {"networkx"},
    "graph/network.py": {"networkx"},
    "model/load/gguf_file.py": {"gguf"},
    "model/load/tokenizer_json.py": {"tokenizers"},
}
FORBIDDEN_ROOMS = {"utils", "util", "helpers", "helper", "common", "misc", "core", "base", "tools", "stuff"}


def room(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def package(module: str) -> str:
    return module.split("/")[0].removesuffix(".py")


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(tree: ast.AST):
    """All imports that run, those under TYPE_CHECKING left out."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        yield from imports(child)


def inner_modules(path: Path) -> set[str]:
    """The modules of the package that a module imports, as paths."""
    found = set()
    for node in imports(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("pathexp")):
            if node.level:
                base = path.parent
                for _ in range(node.level - 1):
                    base = base.parent
                parts = (node.module or "").split(".") if node.module else []
            else:
                base, parts = ROOT, (node.module or "").split(".")[1:]
            place = base.joinpath(*parts)
            for alias in node.names:
                for candidate in (
                    place / f"{alias.name}.py",
                    place.with_suffix(".py"),
                    place / "__init__.py",
                ):
                    if candidate.exists():
                        found.add(room(candidate))
                        break
    return found


def outer_packages(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and not node.level:
        return {(node.module or "").split(".")[0]}
    return set()


@pytest.mark.parametrize("path", MODULES, ids=room)
def test_arrows_point_down(path):
    here = package(room(path))
    if here == "__init__":
        return
    for module in inner_modules(path):
        there = package(module)
        if there == here:
            continue
        assert there in FLOORS, f"{room(path)} imports {module}, which has no floor"
        assert FLOORS[there] < FLOORS[here], f"{room(path)} imports {module}: the arrow runs up or across"


def test_algebra_and_model_do_not_know_each_other():
    for path in MODULES:
        here = package(room(path))
        for module in inner_modules(path):
            assert {here, package(module)} != {"algebra", "model"}, f"{room(path)} imports {module}"


def test_no_circles():
    arrows = {room(path): inner_modules(path) - {room(path)} for path in MODULES}
    done, walking = set(), []

    def visit(module):
        assert module not in walking, " -> ".join([*walking, module])
        if module in done:
            return
        walking.append(module)
        for target in sorted(arrows[module]):
            visit(target)
        walking.pop()
        done.add(module)

    for module in arrows:
        visit(module)


@pytest.mark.parametrize("path", MODULES, ids=room)
def test_no_imports_inside_functions(path):
    allowed = LAZY.get(room(path), set())
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in imports(function):
                assert outer_packages(node) and outer_packages(node) <= allowed, f"{room(path)}:{node.lineno}"


def test_lazy_imports_are_listed_for_a_reason():
    for name, packages in LAZY.items():
        source = (ROOT / name).read_text()
        for lazy in packages:
            assert f"import {lazy}" in source or f"from {lazy}" in source, f"{name} no longer imports {lazy}"


@pytest.mark.parametrize("path", MODULES, ids=room)
def test_rooms_have_names(path):
    assert not {part.removesuffix(".py") for part in Path(room(path)).parts} & FORBIDDEN_ROOMS


@pytest.mark.parametrize("path", MODULES, ids=room)
def test_rooms_are_not_halls(path):
    assert len(path.read_text().splitlines()) <= 400
