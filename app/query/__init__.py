"""The query language: YAML → syntax tree → resolved → plan; one room per pass.

`text` (YAML with places), `tree` (keys of a query file, syntax tree), `resolved` (names and kinds), `planning` (plan), `checks` (warnings, and what no
engine runs), `explain`. `compile` is the entrance, `plan` and `expressions` are what comes out. Reads files only in `compile`; knows no engine.
"""
