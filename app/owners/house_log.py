"""An owner's log: as its application logs, one JSON object per line, to the standard error of its executor."""

from __future__ import annotations

import sys

from app import __version__
from app.config.settings import Logging
from app.observe.logs import configure_logging
from app.owners.orders import OwnerSettings


def log_as_told(settings: OwnerSettings) -> None:
    """From here on; nothing changes where the driver does not say how."""
    if settings.logging:
        configure_logging(Logging.model_validate(settings.logging), settings.name, __version__, sys.stderr)
