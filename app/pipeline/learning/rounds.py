"""One round of learning: for every query that wants a model, whether it needs one, and one that is learned, judged, and kept. Runs beside the application, in any process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from app.config.settings import Settings
from app.control.law.running import remembered
from app.control.messages.batch_log import BatchLog
from app.errors import CepError, ConfigurationError, DependencyError
from app.evaluation.examination import NEWEST, Examination, Lesson, Profile, Promise, TooFewError
from app.evaluation.shed_query import ShedQuery, plans_of
from app.events.batch import EventBatch
from app.owners.deployment import Deployment, attributes_of, load_deployment
from app.owners.model_store import NONE, Choice, Learned, ModelStore
from app.owners.models import SUFFIX, fits, learns, pane_of
from app.owners.query_texts import planned
from app.pipeline.preparation import read_query_set
from app.pipeline.recorded import newest_of, streams_at_a_start
from app.query.plan import Plan
from app.similar import did_you_mean
from app.storage.open import open_store
from shedding.interface import Model
from shedding.model_file import ModelFileError, read, save

MORE = 2
"""So many times the events that a model was learned from, and it is learned anew: a stream that has just begun teaches little."""

Newest = Callable[[Sequence[str], int], EventBatch]
"""About so many of the newest events of these streams each."""
Result = Literal["taken", "no better", "still fits", "too little", "pinned", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one query in a round.

    Attributes:
        learned: the new version; None where none was made.
        text: more about it, for people.
        seconds: that it took.
    """

    query: str
    result: Result
    text: str
    learned: Learned | None = None
    seconds: float = 0.0

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        learned = None if self.learned is None else self.learned.to_plain()
        return {"query": self.query, "result": self.result, "text": self.text, "learned": learned, "seconds": round(self.seconds, 2)}

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> Outcome:
        """The inverse."""
        learned = plain["learned"]
        return Outcome(plain["query"], plain["result"], plain["text"], None if learned is None else Learned(**learned), plain["seconds"])


@dataclass(frozen=True, slots=True)
class Wish:
    """What a round is to do.

    Attributes:
        query: the only one; None: all that shed by a model that nobody else has written.
        anyway: learn even where the model in use still fits, or is pinned (which stays).
        behind: begin with the query behind this one: a round that broke off in it must not always break off there.
        deployment: that the application runs, by its fingerprint; empty: the one of the checkpoint's newest directive.
    """

    query: str | None = None
    anyway: bool = False
    behind: str | None = None
    deployment: str = ""


def ignored(_: str) -> None:
    """Nobody wants to know."""


def learn_round(settings: Settings, wish: Wish, tell: Callable[[str], None], begins: Callable[[str], None] = ignored) -> Iterator[Outcome]:
    """Goes through the queries as the application runs them, one after the other; a choice is written as soon as it is made. Where it does not run these are those that ran last, or in a fresh checkpoint those of the files.

    Args:
        settings: of the application.
        wish: what is wanted.
        tell: is told what is going on.
        begins: is told which query is looked at now.

    Raises:
        ConfigurationError: the query that is wanted cannot run; others that cannot are left out.
        DependencyError: Kafka, registry or checkpoint do not answer.
        CepError: the query that is wanted does not exist, or cannot be learned for; or the deployment cannot be read.
    """
    running = _running(settings, wish.deployment)
    streams = streams_at_a_start(settings, settings.streams) if running is None else running.streams
    compiled = read_query_set(settings, streams) if running is None else planned(running.texts)
    broken = {one.name for one in compiled.queries if one.plan is None}
    if wish.query in broken:
        raise ConfigurationError(compiled.errors)
    if compiled.errors:
        tell(f"query files have {len(compiled.errors)} errors: what cannot run is left out")
    pairs = [(one.plan, plans) for one in compiled.queries if one.plan is not None and one.enabled and (plans := plans_of(one)) is not None]
    learning = [(plan, as_runs) for plan, (_, as_runs) in pairs if learns(plan) and plan.shedding.latency_bound_ms is not None]
    sheds = [one for one in learning if settings.streams.keys() >= set(one[0].streams)]  # what ran last may have read others
    wanted = [(plan, as_runs) for plan, as_runs in sheds if not _given(settings, plan)]
    if wish.query is not None:
        wanted = [one for one in wanted if one[0].name == wish.query]
        if not wanted:
            raise _not_wanted(wish.query, settings, [one.name for one in compiled.queries])
    attributes = frozenset().union(*(attributes_of(plan) for plan, _ in wanted))
    by_name = {one.rules.stream: one for one in streams}

    def newest(names: Sequence[str], count: int) -> EventBatch:
        return newest_of(settings, [by_name[name] for name in names], count, tell, attributes)

    lessons = _Lessons(settings, ModelStore(open_store(settings.checkpoint.uri)), wish, tell, newest)
    for plan, as_runs in _rotated(wanted, wish.behind):
        begins(plan.name)
        started = time.perf_counter()
        found = lessons.of(plan, as_runs)
        yield Outcome(found.query, found.result, found.text, found.learned, time.perf_counter() - started)


def _running(settings: Settings, named: str) -> Deployment | None:
    """What runs, with the schemas of its start: a model that is for the queries under newer ones fits nothing before the next start."""
    if not named:
        latest = BatchLog(open_store(settings.checkpoint.uri)).latest()
        named = "" if latest is None else latest.directive.deployment
    return load_deployment(settings.checkpoint.uri, named) if named else None


def _rotated(wanted: Sequence[tuple[Plan, Plan]], behind: str | None) -> list[tuple[Plan, Plan]]:
    """All of them, those behind the named one first; queries of equal streams follow each other, so that no more than one set of events is in memory."""
    streams = list(dict.fromkeys(plan.streams for plan, _ in wanted))
    ordered = sorted(wanted, key=lambda pair: streams.index(pair[0].streams))
    names = [plan.name for plan, _ in ordered]
    first = names.index(behind) + 1 if behind in names else 0
    return [*ordered[first:], *ordered[:first]]


def _given(settings: Settings, plan: Plan) -> bool:
    """Whether somebody has put a model where models are given."""
    folder = settings.queries.models
    return folder is not None and (folder / f"{plan.name}{SUFFIX}").exists()


def _not_wanted(name: str, settings: Settings, names: Sequence[str]) -> CepError:
    if name not in names:
        hint = did_you_mean(name, names, "queries")
        return CepError(f'there is no query "{name}"\nhint: {hint}; a new one is learned for once the application has run it')
    given = "" if settings.queries.models is None else f", or has {settings.queries.models / name}{SUFFIX}, which is used"
    return CepError(
        f'query "{name}" has no shedder that learns, or no latency_bound, or is no pattern over events{given}\nhint: write for instance shedding: {{shedder: auto, latency_bound: 1 s}}'
    )


class _Lessons:
    """Reads every set of streams once in a row, and of events the attributes that its queries read; what it read goes when another set's turn has come."""

    def __init__(self, settings: Settings, store: ModelStore, wish: Wish, tell: Callable[[str], None], newest: Newest) -> None:
        self._settings, self._store, self._wish, self._tell, self._events = settings, store, wish, tell, newest
        self._read: dict[tuple[tuple[str, ...], int], EventBatch] = {}

    def of(self, plan: Plan, as_runs: Plan) -> Outcome:
        choice = self._store.choice(plan.name)
        used = self._in_use(plan, choice)
        if _holds(choice, used) and not self._wish.anyway:
            return Outcome(plan.name, "pinned", "version 0, which is chance" if choice.version == NONE else f"version {choice.version}")
        try:
            examination = cache(lambda: Examination(ShedQuery(plan, as_runs, self._newest(plan, self._settings.learning.events))))
            why = self._reason(plan, choice, used, examination)
            if why is None:
                return Outcome(
                    plan.name, "still fits", "chance: nothing better was found" if used is None else f"version {used[0].version}"
                )
            return self._learn(examination(), used, choice, why)
        except TooFewError as error:
            return Outcome(plan.name, "too little", str(error))
        except DependencyError:  # of no query: the others would wait for it as long
            raise
        except (ValueError, MemoryError, CepError) as error:  # of this query; the others have their turn
            return Outcome(plan.name, "failed", str(error) or type(error).__name__)

    def _in_use(self, plan: Plan, choice: Choice) -> tuple[Learned, Model[Any]] | None:
        known = self._store.chosen(plan.name, choice)
        if known is None or not fits(known, plan) or (content := self._store.content(known)) is None:
            return None
        try:
            return known, read(content, Path(known.file))
        except ModelFileError:
            return None

    def _reason(
        self, plan: Plan, choice: Choice, used: tuple[Learned, Model[Any]] | None, examination: Callable[[], Examination]
    ) -> str | None:
        """Why something is to be learned now; None: nothing. What was learned last counts, also where it was no better: learning from the same once more would not be."""
        if self._wish.anyway:
            return "asked for"
        tried = [one for one in self._store.versions(plan.name) if fits(one, plan)]
        if not tried:
            return "there was no model"
        last = tried[-1]
        if used is None and choice.version != NONE:
            return f"version {choice.version} cannot be used"
        if used is None and last.harm < last.random:  # somebody chose chance, and nobody does any more
            return "there was no model"
        if time.time() * 1000 - last.learned_at_ms > self._settings.learning.again:
            return f"version {last.version} is old enough to be judged anew"
        return self._outdated(last, plan) or _decline(last, used, examination)

    def _learn(self, examination: Examination, used: tuple[Learned, Model[Any]] | None, choice: Choice, why: str) -> Outcome:
        query = examination.query
        plan, batch = query.plan, query.batch
        self._tell(f"{plan.name}: learning from {len(batch):,} events: {why}")
        lesson = examination.lesson(None if used is None else used[1])
        learned = self._store.add(_learned(query, lesson, why), _content(lesson.model))
        judged = f"{learned.shedder} does {_percent(lesson.harm)} harm, random {_percent(lesson.random)}"
        if used is not None and lesson.in_use is not None:
            judged += f", version {used[0].version} ({used[0].shedder}) {_percent(lesson.in_use)}"
        kept = Outcome(plan.name, "no better", judged, learned)
        if _holds(choice, used):
            return replace(kept, result="pinned", text=f"{judged}; version {choice.version} stays")
        if lesson.worth_taking or (lesson.as_good and used is not None and self._outdated(used[0], plan)):
            taken = Outcome(plan.name, "taken", judged, replace(learned, taken=True))
            return self._chosen(Choice(learned.version, at_ms=learned.learned_at_ms, why=why), choice, taken)
        if lesson.better_by_chance or (used is None and choice.version != NONE):
            why = "random does less harm" if lesson.better_by_chance else "nothing better than random was found in its place"
            by_chance = replace(kept, text=f"{judged}; it sheds at random from now on")
            return self._chosen(Choice(NONE, at_ms=learned.learned_at_ms, why=why), choice, by_chance)
        return kept

    def _chosen(self, choice: Choice, before: Choice, outcome: Outcome) -> Outcome:
        """The outcome, when it is written what is in use; learning takes minutes, in which somebody may have chosen, and that stays."""
        if self._store.choose(outcome.query, choice, instead_of=before):
            return outcome
        now = self._store.choice(outcome.query)
        learned = None if outcome.learned is None else replace(outcome.learned, taken=False)
        text = f"{outcome.text}; chosen meanwhile: {now.why}"
        return replace(outcome, result="pinned" if now.pinned else "no better", text=text, learned=learned)

    def _outdated(self, learned: Learned, plan: Plan) -> str | None:
        """Why what there is to learn from is other input than a version was learned from, or much more of it: at the overloads that it is judged at it may still do, and fail where more must go."""
        newest = self._newest(plan, min(NEWEST, self._settings.learning.events))
        if drift := remembered(Profile, learned.profile).drift_to(Profile.of(plan, newest)):
            return drift
        if MORE * learned.events > self._settings.learning.events * len(plan.streams):
            return None
        there = len(self._newest(plan, self._settings.learning.events))
        return f"there are {there:,} events, version {learned.version} had {learned.events:,}" if there >= MORE * learned.events else None

    def _newest(self, plan: Plan, count: int) -> EventBatch:
        key = (plan.streams, count)
        self._read = {other: batch for other, batch in self._read.items() if other[0] == plan.streams}
        if key not in self._read:
            self._read[key] = self._events(plan.streams, count)
        return self._read[key]


def _holds(choice: Choice, used: tuple[Learned, Model[Any]] | None) -> bool:
    """Whether a person's choice keeps what is learned from being used; one of a version that is gone, or that is for another query than the present one, does not."""
    return choice.pinned and (choice.version == NONE or used is not None)


def _decline(last: Learned, used: tuple[Learned, Model[Any]] | None, examination: Callable[[], Examination]) -> str | None:
    """Why the model in use does not do any more what it did when it was judged last, together with what was learned then."""
    if used is None:
        return None
    harm = last.harm if used[0].version == last.version else last.in_use
    return None if harm is None else examination().decline(used[1], Promise(harm, last.random, last.true))


def _learned(query: ShedQuery, lesson: Lesson, why: str) -> Learned:
    plan, batch = query.plan, query.batch
    return Learned(
        plan.name,
        NONE,
        plan.fingerprint,
        lesson.shedder,
        learned_at_ms=int(time.time() * 1000),
        events=len(batch),
        first_ms=int(batch.time[0]),
        last_ms=int(batch.time[-1]),
        true=lesson.true,
        harm=round(lesson.harm, 4),
        random=round(lesson.random, 4),
        in_use=None if lesson.in_use is None else round(lesson.in_use, 4),
        why=why,
        taken=False,
        profile=asdict(Profile.of(plan, batch)),
        pane=pane_of(plan),
    )


def _content(model: Model[Any]) -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "new.model"
        save(model, file)
        return file.read_bytes()


def _percent(share: float) -> str:
    return f"{share:.1%}"
