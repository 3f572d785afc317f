"""``--shedder auto``: a short competition on the recording, among the shedders that the application runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from app.bucket.recording import rows_between
from app.cli.progress import Progress
from app.errors import CepError
from app.evaluation.contest import Contest, Standing, Terms
from app.evaluation.shed_query import ShedQuery
from app.query.text.keys import EVENT_SHEDDERS, MATCH_SHEDDERS, WINDOW_SHEDDERS
from shedding.registry import METHODS

COMPETITORS = tuple(name for name in (*EVENT_SHEDDERS, *WINDOW_SHEDDERS, *MATCH_SHEDDERS) if METHODS[name].learns)
RATES = (1.3, 1.8)
_LEARN = 0.6
"""Share of the recording that all learn from; they are judged on the rest."""


def best_shedder(query: ShedQuery, seed: int) -> str:
    """The shedder that loses and invents least of the query's composite events, on the mean of two rates, where the excess is dropped from the first event on.

    Of equal ones the first of `COMPETITORS` is taken: the cheaper to decide. What each of them lost is told on standard error.

    Raises:
        CepError: none of them can learn anything here.
    """
    cut = int(len(query.batch) * _LEARN)
    learning, judging = rows_between(query.batch, 0, cut), rows_between(query.batch, cut, len(query.batch))
    contests: dict[bool, Contest] = {}
    harm: dict[str, float] = {}
    progress = Progress(f"{query.plan.name}: competitors", len(COMPETITORS))
    for name in COMPETITORS:
        of_matches = METHODS[name].of_matches
        if of_matches not in contests:
            contests[of_matches] = Contest(query.plan_for(name), learning, judging, Terms(seed=seed, fixed=True))
        try:
            method = query.method(name)
            harm[name] = _harm(list(contests[of_matches].standings(method, contests[of_matches].train(method), RATES)))
        except ValueError:
            continue  # it does not fit the query
        finally:
            progress.advance(1)
    progress.end()
    if not harm:
        raise CepError(
            f"query {query.plan.name}: no shedder learns anything from this recording\nhint: does the query find something in it?"
        )
    best = min(harm, key=lambda name: harm[name])
    told = ", ".join(f"{name} {share:.1%}" for name, share in sorted(harm.items(), key=lambda one: one[1]))
    print(f"{query.plan.name}: lost and wrong composite events at {' and '.join(f'{rate:.0%}' for rate in RATES)}: {told}", file=sys.stderr)
    return best


def _harm(standings: Sequence[Standing]) -> float:
    return sum(one.quality.harm for one in standings) / len(standings)
