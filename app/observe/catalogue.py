"""Prints the catalogue of metrics: ``python -m app.observe.catalogue > ops/metrics.md``."""

from __future__ import annotations

import sys

from app.observe.table import catalogue

if __name__ == "__main__":
    sys.stdout.write(catalogue())
