"""The process that learns: settings and what is wanted come in as a pickle on standard input (settings hold secrets, which belong on no command line), outcomes go out as JSON lines."""

from __future__ import annotations

import json
import os
import pickle
import sys

from app.config.settings import Settings
from app.errors import CepError
from app.pipeline.learning.rounds import Wish, learn_round

ERROR = "error"
TOLD = "told"
BEGUN = "begun"


def main() -> int:
    """One round; returns the exit code."""
    told: tuple[Settings, Wish] = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own driver
    settings, wish = told
    os.nice(settings.learning.niceness)
    try:
        for outcome in learn_round(settings, wish, lambda text: _say({TOLD: text}), lambda query: _say({BEGUN: query})):
            _say(outcome.to_plain())
    except CepError as error:
        _say({ERROR: str(error)})
        return 1
    return 0


def _say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
