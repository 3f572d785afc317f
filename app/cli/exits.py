"""How commands end: every code in one table, and what to do next where an error does not say.

``python -m app.cli.exits > ops/exit-codes.md``; a test fails when it is stale.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from app.errors import CheckpointTakenError, ConfigurationError, DependencyError


@dataclass(frozen=True, slots=True)
class Exit:
    """An exit code.

    Attributes:
        code: as in sysexits.h where it has one.
        when: what has happened.
        again: whether trying again without a change can help.
        next: what to do.
    """

    code: int
    when: str
    again: str
    next: str


EXITS = (
    Exit(0, "Done; the application: stopped as it was asked to.", "–", "nothing"),
    Exit(
        1,
        "What was asked for has a negative answer or cannot be done: findings in queries, tests that failed, a damaged checkpoint, an application that is not ready, "
        "composite events that cannot be reckoned again; the application: its query failed.",
        "no; of the application: yes",
        "read standard error: it says what is wrong and where",
    ),
    Exit(2, "The command line itself is wrong: no such command, option or value.", "no", "`cep COMMAND --help`"),
    Exit(
        65,
        "A batch could not be done in `spark.batch_attempts` attempts.",
        "no",
        "read the reason; `cep checkpoint skip BATCH` leaves a batch out that cannot be matched",
    ),
    Exit(
        69,
        "Something outside is missing or amiss: broker, schema registry, the checkpoint's storage, a running application, a clock; or what has to be installed could not be.",
        "yes, later",
        "`cep doctor` says which of them, and what to do",
    ),
    Exit(
        70,
        "The accounts of a batch do not close: a defect of the application.",
        "no",
        "report it; `delivery.on_accounting_breach: warn` goes on in spite of it",
    ),
    Exit(
        75,
        "Another driver works on the checkpoint, or another reconciliation publishes for it.",
        "yes, when it has ended",
        "stop the application first (in Kubernetes `driver.maintenance: true` of the chart), or let the reconciliation end",
    ),
    Exit(
        77,
        "Broker, registry or application refuse access: wrong user, password or token, or a permission is missing. `cep run` and others that cannot tell it end with 69.",
        "no",
        "mend the credentials, or grant what standard error names",
    ),
    Exit(78, "A wrong configuration: settings, query files, schemas, missing topics, a folder that cannot be written, a port that is taken.", "no", "mend what standard error names; `cep doctor` and `cep validate` check it again"),
    Exit(130, "Ctrl-C.", "–", "nothing"),
)  # fmt: skip

NEXT: dict[type[Exception], str] = {
    ConfigurationError: "mend it, then try again; cep doctor checks settings, queries, topics, schemas and the checkpoint together",
    DependencyError: "cep doctor says what of broker, schema registry and checkpoint answers",
    CheckpointTakenError: "stop the application first, or name another checkpoint.path",
}
"""What to do next where an error does not say it better itself."""

_HEAD = """# Exit codes

Made from `app/cli/exits.py` by `python -m app.cli.exits`; a test fails when it is stale.
All commands have the same codes. What went wrong is on standard error, as text, whatever `--output` says; its last lines, `hint: …`, say what to do next.

| code | what has happened | again? | what to do |
|---|---|---|---|
"""


def table() -> str:
    """The table as Markdown."""
    return _HEAD + "".join(f"| {one.code} | {one.when} | {one.again} | {one.next} |\n" for one in EXITS)


def with_next(error: Exception) -> str:
    """What an error says, and what to do next."""
    text, general = str(error), next((hint for kind, hint in NEXT.items() if isinstance(error, kind)), None)
    return text if general is None or "hint: " in text else f"{text}\nhint: {general}"


if __name__ == "__main__":
    sys.stdout.write(table())
