"""Temporal queries (coalescing operator): comes with the issue on the whole language."""
