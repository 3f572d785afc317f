"""``cep``: the entrance to all commands. An error that people caused is text and an exit code here, never a stack trace."""

from __future__ import annotations

import sys

import typer

from app.bootstrap.failure import SetupError
from app.cli.checkpoint import checkpoint
from app.cli.demo import demo
from app.cli.evaluate import evaluate
from app.cli.explain import explain
from app.cli.generate import generate
from app.cli.produce import produce
from app.cli.record import record
from app.cli.replay import replay
from app.cli.run import run
from app.cli.test import test
from app.cli.topics import topics
from app.cli.train import train
from app.cli.validate import validate
from app.cli.version import version
from app.errors import CepError, ConfigurationError, DependencyError
from app.owners.sole import CheckpointTakenError

EXIT_CODES: dict[type[Exception], int] = {
    ConfigurationError: 78,
    DependencyError: 69,
    SetupError: 69,
    CheckpointTakenError: 75,
    CepError: 1,
}
"""As in sysexits.h: 78 a configuration that cannot work, 69 something outside is missing, 75 a driver works on it; the first that fits counts."""

cli = typer.Typer(
    name="cep",
    help="Complex event processing on Spark, with load shedding under a latency bound.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (run, demo, validate, test, explain, replay, train, evaluate, generate, produce, record, version):
    cli.command()(command)
cli.add_typer(topics)
cli.add_typer(checkpoint)


def main() -> None:
    """Run the command line."""
    try:
        cli()
    except (CepError, SetupError) as error:
        print(error, file=sys.stderr)
        sys.exit(next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind)))
