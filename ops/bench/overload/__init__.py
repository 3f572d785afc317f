"""Overload on the real application: does every query keep its latency bound, what does that cost, and is what was shed accounted for?

`python -m ops.bench.overload --help`. Walked through: `workloads` (streams and queries), `load` (rates, sent from a process of its own), `runs`
(the application under load: composite events, directives, verdicts, estimates), `judged` (against a run without shedding over the same topics),
`pictures`.
"""
