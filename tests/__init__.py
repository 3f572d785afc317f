"""Tests of the application; `python3 -m tests` runs them all, after the static checks."""
