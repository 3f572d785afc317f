"""``--shedder auto``: a short competition on the recording, among the shedders that the application runs."""

from __future__ import annotations

import sys

from app.cli.progress import Progress
from app.errors import CepError
from app.evaluation.examination import FEWEST, Examination, chosen
from app.evaluation.shed_query import ShedQuery
from app.evaluation.split import RATES
from app.features.runnable import not_run
from app.query.text.keys import EVENT_SHEDDERS, MATCH_SHEDDERS, WINDOW_SHEDDERS
from shedding.registry import METHODS

COMPETITORS = tuple(name for name in (*EVENT_SHEDDERS, *WINDOW_SHEDDERS, *MATCH_SHEDDERS) if METHODS[name].learns)


def best_shedder(query: ShedQuery, seed: int) -> str:
    """The shedder that loses and invents least of the query's composite events, on the mean of two rates, at equal work, as a running application with ``shedder: auto`` has it (`Examination`).

    Of about equal ones the cheaper to decide is taken (`chosen`). What each of them lost is told on standard error.

    Raises:
        CepError: none of them can learn anything here.
    """
    try:
        examination = Examination(query, seed)
    except ValueError as error:
        raise CepError(f"query {query.plan.name}: {error}") from error
    harm: dict[str, float] = {}
    names = [name for name in COMPETITORS if not_run(query.plan_for(name), name) is None]
    progress = Progress(f"{query.plan.name}: competitors", len(names))
    for name in names:
        try:
            harm[name] = examination.harm_of(name)
        except ValueError:
            continue  # it does not fit the query
        finally:
            progress.advance(1)
    progress.end()
    if not harm:
        raise CepError(
            f"query {query.plan.name}: no shedder learns anything from this recording\nhint: does the query find something in it?"
        )
    best = chosen(harm)
    if examination.true < FEWEST:
        print(
            f"warning: {query.plan.name}: {examination.true} composite events decide, so chance does; a running application waits for {FEWEST}",
            file=sys.stderr,
        )
    if harm[best] >= examination.random:
        print(
            f"warning: {query.plan.name}: none does better than shedding at random ({examination.random:.1%}); a running application would shed at random",
            file=sys.stderr,
        )
    told = ", ".join(f"{name} {share:.1%}" for name, share in sorted(harm.items(), key=lambda one: one[1]))
    print(
        f"{query.plan.name}: lost and wrong composite events at {' and '.join(f'{rate:.0%}' for rate in RATES)}: {told}; random {examination.random:.1%}",
        file=sys.stderr,
    )
    return best
