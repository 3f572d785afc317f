"""The query language: YAML → syntax tree → resolved → plan.

One file per pass: `source` (YAML with places), `document` (keys), `parse` and `build` (syntax tree), `resolve` (names and kinds),
`refusals` (what no engine runs), `planning` (plan). `compile` is the entrance. Reads files only in `compile`; knows no engine.
"""
