"""Modules are imported where they are named, at the top of a file; what is imported late is imported in one way, on the top floor."""

import ast
import inspect
from pathlib import Path

import pytest
import typer

from app.cli.later import Later, listed_help
from app.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for package in ("app", "shedding") for path in (ROOT / package).rglob("*.py"))

LATE = {
    "app/__main__.py": "older Pythons must get a sentence, and the environment stands only after the bootstrap",
    "app/cli/later.py": "the one way: a command's module, and parts of commands",
    "shedding/registry.py": "a method's own file, named in a table: the same, in a library of its own",
    "shedding/events/gspice_trees.py": "scikit-learn learns: seconds that models in use do not need",
    "shedding/events/prefix.py": "the same",
    "shedding/partial_matches/stateful.py": "the same",
}
"""Files that may import late, and why."""


def late_imports(source: str) -> list[int]:
    """Lines of imports inside functions, and of calls that import by name.

    >>> late_imports("import a")
    []
    >>> late_imports("def f():\\n    from a import b")
    [2]
    >>> late_imports("import_module('a')"), late_imports("x = importlib.import_module(n)"), late_imports("__import__('a')")
    ([1], [1], [1])
    """
    tree = ast.parse(source)
    inner = {
        child.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.walk(node)
        if isinstance(child, ast.Import | ast.ImportFrom)
    }
    called = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) or getattr(node.func, "attr", None)) in ("import_module", "__import__")
    }
    return sorted(inner | called)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_imported_late(path):
    if str(path.relative_to(ROOT)) not in LATE:
        assert late_imports(path.read_text(encoding="utf-8")) == []


def test_what_may_import_late_does():
    assert {name for name in LATE if late_imports((ROOT / name).read_text(encoding="utf-8"))} == set(LATE)


def test_the_one_way_is_the_top_floors_alone():
    users = {path.relative_to(ROOT).parts[:2] for path in SOURCES if "cli.later" in path.read_text(encoding="utf-8")}
    assert users == {("app", "cli")}


@pytest.mark.parametrize("path", sorted((ROOT / "app" / "cli").rglob("*.py")), ids=lambda path: path.stem)
def test_what_is_named_to_be_imported_later_is_there(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", None) == "Later"
            and all(isinstance(one, ast.Constant) for one in node.args)
        ):
            later = Later(*(ast.literal_eval(one) for one in node.args))
            assert callable(later.get())


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_is_listed_as_its_docstring_says(command):
    found = command.later.get()
    assert command.help == listed_help(found)
    assert isinstance(found, typer.Typer) or inspect.isfunction(found)
