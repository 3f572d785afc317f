"""What set-up raises: a sentence for a person, with what to do about it; ``app.errors`` may need packages one day, this never."""

from __future__ import annotations


class SetupError(Exception):
    """Set-up cannot go on: what is missing, and what to do."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}\nhint: {hint}" if hint else message)
