"""Shedding on a clock: operators that really run, and events that come when they are due (`ops/decisions/0030`)."""
