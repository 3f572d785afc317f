"""Sequences under skip-till-any-match: active instance stacks, and all matches that an event completes by walking them (SASE)."""
