# ruff: noqa: INP001 - a program of the image, in no package
"""Asks a release what probes, scrapers and operators ask, until all answers are good: what ``helm test`` runs. Standard library only.

    release_check.py SECONDS URL [CONTROL_URL]

The first URL is that of probes and metrics; queries are asked at the second, if there is one.

Exit codes: 0 all good, 1 not within the seconds; standard output has a line per question.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

PAUSE_S = 1.0
REQUEST_S = 10


def fetched(url: str) -> tuple[int, str]:
    """Status and body; 0 and the reason when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=REQUEST_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
    except OSError as error:
        return 0, str(error)


def probe(body: str) -> str:
    """Probes say everything by their status."""
    return ""


def metrics(body: str) -> str:
    """The driver holds its checkpoint."""
    return "" if "cep_leader 1.0" in body.splitlines() else "cep_leader is not 1"


def queries(body: str) -> str:
    """Every query runs."""
    found = json.loads(body)["queries"]
    bad = [f"{query['query']}: {query['status']}" for query in found if query["status"] not in ("running", "disabled", "draining")]
    return ", ".join(bad)


Judge = Callable[[str], str]
CHECKS: tuple[tuple[str, Judge], ...] = (("/livez?verbose", probe), ("/readyz?verbose", probe), ("/metrics", metrics))
CONTROL_CHECKS: tuple[tuple[str, Judge], ...] = (("/queries", queries),)


def fault(base: str, path: str, judge: Judge) -> str:
    """What is wrong with one answer; nothing when it is good."""
    status, body = fetched(base + path)
    if status != 200:
        return f"status {status}: {body.strip()}"
    return judge(body)


def main(seconds: float, base: str, control: str | None = None) -> int:
    """Asks until everything is good or the time is over; returns the exit code."""
    deadline = time.monotonic() + seconds
    asked = [(base, *check) for check in CHECKS] + [(control, *check) for check in CONTROL_CHECKS if control]
    while True:
        faults = {path: fault(url.rstrip("/"), path, judge) for url, path, judge in asked}
        if not any(faults.values()) or time.monotonic() >= deadline:
            break
        time.sleep(PAUSE_S)
    for path, text in faults.items():
        print(f"[-]{path} {text}" if text else f"[+]{path} ok", flush=True)
    return int(any(faults.values()))


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), *sys.argv[2:]))
