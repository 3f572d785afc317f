"""What a check says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from app.errors import AccessRefusedError, CepError, ConfigurationError, DependencyError, Finding

State = Literal["ok", "warning", "failed", "skipped"]
HINT = "\nhint: "


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of a check.

    Attributes:
        name: a stable word.
        found: what was seen.
        next: what to do about it; empty where there is nothing to do.
        code: the exit code that a start would end with because of it, or 1 where it would start; 0 unless it failed.
    """

    name: str
    state: State
    found: str
    next: str = ""
    code: int = 0

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return {"check": self.name, "state": self.state, "found": self.found, "next": self.next, "exit_code": self.code}


def ok(name: str, found: str) -> Check:
    """All is well."""
    return Check(name, "ok", found)


def warning(name: str, found: str, hint: str) -> Check:
    """The application runs, but somebody should look."""
    return Check(name, "warning", found, hint)


def failed(name: str, found: str, hint: str, code: int) -> Check:
    """The application does not run like this, or does not do what it should."""
    return Check(name, "failed", found, hint, code)


def of_error(name: str, error: CepError) -> Check:
    """What an error says, split into what was found and what to do."""
    text, _, hint = str(error).partition(HINT)
    return failed(name, text, hint or "mend it, and ask again", code_of(error))


def of_findings(name: str, findings: Iterable[Finding], code: int = os.EX_CONFIG) -> list[Check]:
    """One check per finding."""
    return [failed(name, _without_hint(one), one.hint or "mend it, and ask again", code) for one in findings]


def _without_hint(finding: Finding) -> str:
    return finding.render().partition(HINT)[0]


def code_of(error: CepError) -> int:
    """The exit code of an error."""
    codes = ((ConfigurationError, os.EX_CONFIG), (AccessRefusedError, os.EX_NOPERM), (DependencyError, os.EX_UNAVAILABLE))
    return next((code for kind, code in codes if isinstance(error, kind)), 1)


def exit_code(checks: Iterable[Check]) -> int:
    """That of the first failure: checks come in the order in which things are needed, so it is the one to mend first.

    >>> exit_code([ok("a", ""), failed("b", "", "", 69), failed("c", "", "", 78)]), exit_code([ok("a", "")])
    (69, 0)
    """
    return next((check.code for check in checks if check.state == "failed"), 0)


def attempted(name: str, look: Callable[[], list[Check]]) -> list[Check]:
    """The outcome of some checks; an error of theirs is one."""
    try:
        return look()
    except ConfigurationError as error:
        return of_findings(name, error.findings)
    except CepError as error:
        return [of_error(name, error)]
    except OSError as error:
        return [failed(name, str(error), "is it there, and may this user read and write it?", os.EX_UNAVAILABLE)]
