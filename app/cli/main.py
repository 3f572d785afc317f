"""``cep``: the entrance to all commands. An error that people caused is text and an exit code here, never a stack trace."""

from __future__ import annotations

import errno
import os
import sys

import typer
from typer._completion_classes import completion_init

from app.bootstrap.failure import SetupError
from app.bootstrap.kernels import warm_kernels
from app.cli.exits import with_next
from app.cli.later import PLAIN, Command, Later, group_of
from app.errors import NO_SPACE, AccessRefusedError, CepError, CheckpointTakenError, ConfigurationError, DependencyError

EXIT_CODES: dict[type[Exception], int] = {
    ConfigurationError: 78,
    AccessRefusedError: 77,
    DependencyError: 69,
    SetupError: 69,
    CheckpointTakenError: 75,
    CepError: 1,
}
"""As in sysexits.h: 78 a configuration that cannot work, 77 access refused, 69 something outside is missing, 75 a driver works on it; the first that fits counts.
`app.cli.exits` is the table for people."""

UNUSABLE = "is its folder there, and may you write to it?"
HINTS = {errno.ENAMETOOLONG: "no file can be called so: was its content meant, or are several names one?", errno.EISDIR: "name a file"}
"""What to do about a file that cannot be used, by what the system says of it."""

COMMANDS = (
    Command("init", "running", "Write a settings file to begin from: the streams and queries of the demo, with your broker and registry."),
    Command("run", "running", "Run the application until SIGTERM or Ctrl-C (a second one stops at once).", kernels="first"),
    Command("demo", "demo", "Run everything on this machine and watch composite events arrive; Ctrl-C ends it."),
    Command("validate", "queries", "Check query files; exit 0 when they can run, 1 with all findings on standard error."),
    Command("test", "queries", "Run the tests: blocks of query files; exit 0 when all pass, 1 otherwise.", kernels="checked"),
    Command(
        "explain",
        "queries",
        "Show how a query is understood: its syntax tree, plan, automaton, selection or the engine's tables; or why events gave no match.",
    ),
    Command("replay", "replay", "Run queries over a file of events and write one JSON object per composite event.", kernels="checked"),
    Command(
        "train",
        "shedding",
        "Learn a shedder's model from recorded events, for `cep replay --model` and for the application (`queries.models`).",
        kernels="checked",
    ),
    Command(
        "evaluate",
        "shedding",
        "Compare shedders: what each of them would cost the query under overload, in lost and in wrong composite events, and in latency.",
        kernels="checked",
    ),
    Command(
        "models",
        "shedding",
        "See, choose and learn the models that queries shed by while the application runs.",
    ),
    Command("generate", "streams", "Write a stream with known ground truth as JSON lines that `cep replay` reads."),
    Command("produce", "streams", "Send events to Kafka and say how many, how fast, and how far behind schedule at worst."),
    Command("record", "streams", "Record what a stream's topics hold, as `cep replay`, `cep train` and `cep evaluate` read it."),
    Command("version", "", "Print the version of the application and of Python."),
    Command(
        "completion",
        "",
        'Print the script that completes commands and options: `eval "$(cep completion bash)"` in the shell\'s start-up file.',
    ),
    Command("topics", "streams", "Look at the topics of an application, and create them."),
    Command("doctor", "running", "Check all that the application needs, and say what to do about what is wrong."),
    Command("status", "running", "Show what the running application does, query by query."),
    Command("tail", "streams", "Show composite events as they are on their topics."),
    Command("dlq", "streams", "Look at dead letters, and send them again."),
    Command("reconcile", "running", "Publish the composite events that shedding lost, and retract those that it made up.", kernels="first"),
    Command("checkpoint", "running", "Look into the application's checkpoint, and get out of trouble."),
)


def _prepare(command: Command) -> None:
    """What commands with kernels need."""
    if command.kernels == "first":
        warm_kernels()
    Later("without_pandas", "leave_pandas_out")()


cli = typer.Typer(name="cep", cls=group_of(COMMANDS, _prepare), no_args_is_help=True, **PLAIN)


@cli.callback()
def entrance() -> None:
    """Complex event processing on Spark, with load shedding under a latency bound."""


def _open_closed_streams() -> None:
    """Standard streams that the caller closed, as ``>&-`` does, lead nowhere: Python has none there, and the next file to be opened would take the number, and with it what libraries print."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = open(os.devnull, mode, encoding="utf-8")  # noqa: PTH123, SIM115 - a device, until the process ends
            os.set_inheritable(nowhere.fileno(), True)
            setattr(sys, name, nowhere)


def main() -> None:
    """Run the command line."""
    _open_closed_streams()
    completion_init()  # teaches typer the shells; its own way to it is two options of `cep` that cost every command 0.1 s
    try:
        cli()
    except (CepError, SetupError) as error:
        print(with_next(error), file=sys.stderr)
        sys.exit(next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind)))
    except OSError as error:  # of a file that a command writes; what it reads has errors of its own
        if error.errno in NO_SPACE:
            print(
                f"{(error.strerror or 'no space').lower()}\nhint: what was being written is not complete; make room and begin again",
                file=sys.stderr,
            )
            sys.exit(EXIT_CODES[DependencyError])
        if error.filename is None:
            raise
        print(
            f"{error.filename}: {(error.strerror or 'cannot be used').lower()}\nhint: {HINTS.get(error.errno or 0, UNUSABLE)}",
            file=sys.stderr,
        )
        sys.exit(EXIT_CODES[ConfigurationError])
