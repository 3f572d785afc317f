"""What is asked for becomes what is compared: queries, their scopes, and what must be read for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from app.bucket.composition import stream_of, with_all_read
from app.bucket.hold import FOREVER, NEVER
from app.errors import ConfigurationError, Finding
from app.pipeline.reconcile.failure import NothingShedsError, NotThereYetError, ReconcileError, moment
from app.pipeline.reconcile.found import Compared
from app.pipeline.reconcile.identities import Kind
from app.pipeline.reconcile.live import Live
from app.pipeline.reconcile.scope import EVER, Interval, hull, needed_for, reached, refusal, scope_of
from app.query.plan import Catalog, Plan
from app.query.sampling import sheds_for_its_bound

NOBODY: Mapping[str, str] = {}
_WANTS_ALL = "what it finds depends on all that was before; --query {name} compares it from the very beginning of the checkpoint"


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for.

    Attributes:
        shed: event times between which events were shed, ms.
        queries: names; none: all that shed, and all that read these.
        ahead_ms: how far event times may be ahead of Kafka's timestamps, where the streams do not allow less.
        dry: whether nothing is published.
    """

    shed: Interval
    queries: tuple[str, ...] = ()
    ahead_ms: int = 60_000
    dry: bool = False


@dataclass(frozen=True, slots=True)
class Aims:
    """What is compared.

    Attributes:
        plans: of the queries, and of those that they read.
        compared: by kind.
        cut: kinds of which later composite events may yet come: the application has not come so far.
        left_out: queries of which nobody can say what they would have found, and why.
        needed: times of the events without which that cannot be said.
        come: event time up to which the application has decided everything of all of them, ms.
    """

    plans: tuple[Plan, ...]
    compared: Mapping[Kind, Compared]
    cut: frozenset[Kind]
    left_out: Mapping[str, str]
    needed: Interval
    come: int


def aims_of(request: Request, live: Live, newcomers: Mapping[str, str] = NOBODY) -> Aims:
    """What a request comes to where the application is.

    Args:
        request: what is asked for.
        live: where the application is.
        newcomers: by query why it cannot be compared; see `app.pipeline.reconcile.span.newcomers`.

    Raises:
        ConfigurationError: a query that is asked for is not there.
        NotThereYetError: for no other reason than that the application has not come so far.
        ReconcileError: nothing can be compared, or a query that is asked for cannot be.
    """
    catalog = live.deployment.catalog
    asked = list(_asked(request, catalog))
    refused = {
        plan.name: why
        for plan in asked
        for one in with_all_read([plan], catalog)
        if (why := refusal(one) or newcomers.get(one.name)) is not None
    }
    compared: dict[Kind, Compared] = {}
    needed, cut, early, come = [], set(), set(), FOREVER
    for plan in asked:
        whole = scope_of(plan, catalog, request.shed)
        known = reached(plan, catalog, live.watermarks)
        if whole == EVER and not request.queries:
            refused.setdefault(plan.name, _WANTS_ALL.format(name=plan.name))
        if plan.name in refused:
            continue
        come = min(come, known)
        if known <= max(NEVER, whole.begin):
            refused[plan.name] = _not_there_yet(known)
            early.add(plan.name)
            continue
        scope = Interval(whole.begin, min(whole.end, known - 1))
        for kind, topic in _topics(plan, live):
            compared[kind] = Compared(plan.version, topic, scope)
            if scope.end < (request.shed.end if whole == EVER else whole.end):
                cut.add(kind)
        needed.append(needed_for(plan, catalog, scope))
    if refused and (request.queries or not compared):
        told = NotThereYetError if early.issuperset(refused) else ReconcileError
        raise told("\n".join(f'query "{name}" cannot be reconciled: {why}' for name, why in sorted(refused.items())))
    plans = with_all_read([plan for plan in asked if plan.name not in refused], catalog)
    return Aims(tuple(plans), compared, frozenset(cut), refused, hull(needed), come)


def _asked(request: Request, catalog: Catalog) -> Iterator[Plan]:
    known = {plan.name: plan for plan in catalog.current}
    if unknown := [name for name in request.queries if name not in known]:
        hint = f"it runs {', '.join(known)}"
        raise ConfigurationError([Finding(f'the application runs no query "{name}"', hint=hint) for name in unknown])
    if request.queries:
        yield from (known[name] for name in dict.fromkeys(request.queries))
        return
    shedding = {name for name, plan in known.items() if _sheds(plan)}
    while more := {plan.name for plan in known.values() if {stream_of(name) for name in shedding} & set(plan.streams)} - shedding:
        shedding |= more
    if not shedding:
        raise NothingShedsError("no query sheds: nothing can be missing\nhint: --query compares one nevertheless")
    yield from (known[name] for name in sorted(shedding))


def _sheds(plan: Plan) -> bool:
    """Whether anything of the query may be shed: for its bound, or because its tuples or partial matches are too many."""
    return sheds_for_its_bound(plan) or plan.shedding.bounds_memory or plan.shedding.state_bytes is not None


def _topics(plan: Plan, live: Live) -> Iterator[tuple[Kind, str]]:
    number = next(number for number, one in enumerate(live.deployment.catalog.plans) if one is plan)
    yield Kind(plan.name), live.deployment.outputs[number].topic
    timeouts = live.deployment.timeouts[number]
    if timeouts is not None:
        yield Kind(plan.name, timeouts=True), timeouts.topic


def _not_there_yet(known: int) -> str:
    if known <= NEVER:
        return "the application does not know yet how far time has come in its streams"
    come = "the end of time" if known >= FOREVER else moment(known)
    return f"the application has only come to {come}; what is later it may yet find itself"
