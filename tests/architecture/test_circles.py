"""No module imports itself by way of others: each can be read, and moved, before those that use it."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in ("app", "shedding")
    for path in (ROOT / package).rglob("*.py")
}


def imported(tree: ast.AST, modules: set[str]) -> set[str]:
    """Those of some modules that a module imports.

    >>> sorted(imported(ast.parse("from a.b import c, d"), {"a.b", "a.b.c"}))
    ['a.b', 'a.b.c']
    >>> sorted(imported(ast.parse("import a.b"), {"a", "a.b"}))
    ['a.b']
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner | {node.module or ""}
    return found & modules


def circle(imports: dict[str, set[str]]) -> list[str]:
    """A circle among modules; nothing if there is none.

    >>> circle({"a": {"b"}, "b": {"c"}, "c": set()})
    []
    >>> sorted(set(circle({"a": {"b"}, "b": {"a"}, "c": {"a"}})))
    ['a', 'b']
    """
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@cache
def graph() -> dict[str, set[str]]:
    """What each module imports of the others; a package's own text counts for the package alone."""
    names = set(MODULES)
    return {name: imported(ast.parse(path.read_text(encoding="utf-8")), names) - {name} for name, path in MODULES.items()}


def test_no_module_imports_itself_by_way_of_others():
    assert circle(graph()) == []


@pytest.mark.parametrize("floor", ["app.cep", "app.query", "app.cli"])
def test_no_room_imports_itself_by_way_of_others(floor):
    """Where a floor has rooms, what a package's modules import counts for the room."""
    rooms: dict[str, set[str]] = {}
    for name, others in graph().items():
        room = room_of(name, floor)
        if room:
            rooms.setdefault(room, set()).update(filter(None, (room_of(other, floor) for other in others)))
    assert circle({room: others - {room} for room, others in rooms.items()}) == []


def room_of(module: str, floor: str) -> str:
    """The part of a floor in which a module stands; nothing for others.

    >>> room_of("app.cep.runs.automaton.terms", "app.cep"), room_of("app.cep", "app.cep"), room_of("app.query.plan", "app.cep")
    ('runs', '', '')
    """
    inner = module.removeprefix(f"{floor}.")
    return "" if inner == module else inner.split(".")[0]
