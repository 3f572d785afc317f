"""Commands: their exit codes are in one table, what they print can be read by programs, and shells complete them."""

import ast
import re
from pathlib import Path

import click
import pytest

from app.cli import main
from app.cli.exits import EXITS, NEXT, table, with_next
from app.cli.main import COMMANDS
from app.cli.running import run
from app.errors import AccessRefusedError, CepError, CheckpointTakenError, ConfigurationError, DependencyError, Finding

ROOT = Path(__file__).parents[2]
CODES = {one.code for one in EXITS}
WITHOUT_OUTPUT = {
    "run": "its log is JSON lines (logging.format)",
    "demo": "a screen for people",
    "completion": "a shell's script",
    "models show": "one object of JSON",
    "replay": "composite events, a line of JSON each; --stats has the figures",
    "generate": "events, a line of JSON each",
}
"""Commands that have no --output, and what they print."""


def leaves() -> dict[str, click.Command]:
    """All commands by what is typed."""
    found = {}
    for one in COMMANDS:
        loaded = one.load()
        commands = getattr(loaded, "commands", None)
        found |= {f"{one.name} {name}": inner for name, inner in commands.items()} if commands else {one.name: loaded}
    return found


LEAVES = leaves()


def codes_in(source: str) -> set[int]:
    """Exit codes that a source names by number, and the numbers in its tables of them.

    >>> codes_in("raise typer.Exit(3)\\nsys.exit(69)")
    {3, 69}
    """
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    exits = [one for one in calls if ast.unparse(one.func) in ("typer.Exit", "sys.exit", "os._exit")]
    return {arg.value for one in exits for arg in one.args if isinstance(arg, ast.Constant) and isinstance(arg.value, int)}


def test_the_table_is_up_to_date():
    assert (ROOT / "ops" / "exit-codes.md").read_text() == table(), "run: python -m app.cli.exits > ops/exit-codes.md"


def test_every_code_that_a_command_ends_with_is_in_the_table_and_no_other():
    used = set(main.EXIT_CODES.values()) | {code for _, code in run.EXIT_CODES}
    for path in [*(ROOT / "app" / "cli").rglob("*.py"), ROOT / "app" / "__main__.py"]:
        used |= codes_in(path.read_text(encoding="utf-8"))
    assert used | {0, 2, 130} == CODES, "0, click's own 2, and 130 for Ctrl-C are nobody's number"


@pytest.mark.parametrize("name", LEAVES)
def test_a_commands_help_names_no_code_that_is_not_in_the_table(name):
    told = re.search(r"Exit codes?:(.*?)(?:\n\n|$)", LEAVES[name].help or "", re.DOTALL)
    assert {int(code) for code in re.findall(r"(?<![\w.])(\d{1,3})(?= )", told[1] if told else "")} <= CODES


@pytest.mark.parametrize("name", LEAVES)
def test_what_a_command_prints_can_be_read_by_programs(name):
    options = {option for parameter in LEAVES[name].params for option in parameter.opts}
    assert ("--output" in options) != (name in WITHOUT_OUTPUT)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError([Finding("wrong")]), 78),
        (AccessRefusedError("no"), 77),
        (DependencyError("away"), 69),
        (CheckpointTakenError("taken"), 75),
        (CepError("no"), 1),
    ],
)
def test_an_error_ends_with_its_code_and_says_what_to_do_next(error, code):
    assert next(own for kind, own in main.EXIT_CODES.items() if isinstance(error, kind)) == code
    assert ("hint: " in with_next(error)) == any(isinstance(error, kind) for kind in NEXT)
    said = DependencyError("away\nhint: look there")
    assert with_next(said) == str(said), "what says it better is left as it is"
