"""Files are read in one go, functions seen in one look; the exceptions are named, with their reasons."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {str(path.relative_to(ROOT)): path for package in ("app", "shedding") for path in sorted((ROOT / package).rglob("*.py"))}
FILE, FUNCTION = 400, 60
"""Lines at most."""

LONG_FILES = {
    "app/config/settings.py": "one tree of settings with what each means",
}
LONG_FUNCTIONS = {
    "app/cep/chains/kernels_chains.py": {"_advance": "one loop"},
    "app/cep/predicates/kernels_machine.py": {"run_program": "one loop"},
    "app/cep/runs/kernels_scan.py": {"advance": "one loop", "meet_all": "one loop"},
    "app/cep/stacks/kernels_construction.py": {"construct": "one loop"},
    "app/cep/stacks/kernels_scan.py": {"advance": "one loop"},
    "app/cep/stacks/kernels_windows.py": {"expire": "one loop"},
    "app/cli/replay/replay.py": {"replay": "the options of a command are its parameters"},
    "app/cli/shedding/evaluate.py": {"evaluate": "the options of a command are its parameters"},
    "app/coalesce/kernels_windows.py": {"_evaluate": "one loop"},
    "app/events/kernels.py": {"decode_records": "one loop"},
    "app/files/kernels_lines.py": {"read_lines": "one loop"},
}


def long_functions(source: str, most: int = FUNCTION) -> set[str]:
    """Functions of more lines than that, the first and the last line counted.

    >>> long_functions("def f():\\n    a\\n    b\\ndef g():\\n    a", 2)
    {'f'}
    """
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > most
    }


@pytest.mark.parametrize("name", SOURCES)
def test_files_and_functions_are_short(name):
    source = SOURCES[name].read_text(encoding="utf-8")
    assert len(source.splitlines()) <= FILE or name in LONG_FILES
    assert long_functions(source) <= set(LONG_FUNCTIONS.get(name, {}))


def test_exceptions_are_long():
    texts = {name: path.read_text(encoding="utf-8") for name, path in SOURCES.items()}
    assert {name for name in LONG_FILES if len(texts[name].splitlines()) > FILE} == set(LONG_FILES)
    assert {name: long_functions(texts[name]) for name in LONG_FUNCTIONS} == {name: set(own) for name, own in LONG_FUNCTIONS.items()}
