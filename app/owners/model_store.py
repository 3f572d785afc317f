"""Models that the application has learned itself: versions in the checkpoint, and which of them is in use.

``models/<query>/<version>.model`` is what `cep train` would write, ``<version>.json`` says what it was learned from and how it did (`Learned`); of ``model-choices/<query>/<number>.json``
the one with the greatest number says which version is in use (`Choice`), so that one listing tells whether anything was chosen anew. Deployments hold models of their own, so nothing here is read by a batch: what is changed here becomes true when the next deployment is prepared.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any

from app.control.law.running import remembered
from app.errors import CepError
from app.observe.logs import get_logger
from app.storage.store import MissingError, Store

FOLDER, CHOICES = "models", "model-choices"
KEPT = 10
"""Versions of a query's models; the one in use and the one before it are kept as well."""
NONE = 0
"""In place of a version: no model of this store."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Learned:
    """A version of a query's model.

    Attributes:
        fingerprint: of the query that it is for.
        shedder: its method.
        learned_at_ms: when.
        events: the newest ones of the query's streams, learned from and judged by.
        first_ms, last_ms: their times.
        true: composite events that it was judged by.
        harm: lost and wrong composite events as a share of the true ones; ``random`` and ``in_use`` the same of shedding at random, and of the model that was in use.
        why: it was learned.
        taken: whether it ever came into use; if not, something else was better, or somebody had chosen.
        profile: what the candidates looked like, as `app.evaluation.examination.Profile` has it.
        digest: of the model's file.
        pane: that the query asked for (`app.owners.models.pane_of`); None where an earlier version has not noted it.
        file: of the model, in the store.
    """

    query: str
    version: int
    fingerprint: str
    shedder: str
    learned_at_ms: int
    events: int
    first_ms: int
    last_ms: int
    true: int
    harm: float
    random: float
    in_use: float | None
    why: str
    taken: bool
    profile: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    pane: str | None = None

    @property
    def file(self) -> str:
        """Its name in the store."""
        return _name(self.query, f"{self.version}.model")

    def fits_where(self, other: Learned) -> bool:
        """Whether it is for the same query, as that is now."""
        return (self.fingerprint, self.pane) == (other.fingerprint, other.pane)

    def to_plain(self) -> dict[str, Any]:
        """Values for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which of a query's models is in use.

    Attributes:
        version: or `NONE`: sheds at random.
        pinned: by a person; what is learned later does not take its place.
        at_ms: when it was chosen.
        why: for people.
        before: the version that was in use before; `NONE` where there was none, or an earlier version has not noted it.
    """

    version: int = NONE
    pinned: bool = False
    at_ms: int = 0
    why: str = ""
    before: int = NONE


class ModelStore:
    """The models of a checkpoint.

    Args:
        store: of the checkpoint.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[tuple[str, int], Choice] = {}
        self._damaged: set[str] = set()

    def choices(self) -> dict[str, Choice]:
        """By query; those that were ever chosen for."""
        numbers: dict[str, list[int]] = {}
        for stored in self._store.names(CHOICES):
            numbers.setdefault(stored.name.split("/")[1], []).append(_number(stored.name))
        newest = {(query, max(own)): own for query, own in numbers.items()}
        self._known = {key: self._known.get(key) or self._choice(key[0], own) for key, own in newest.items()}
        return {query: choice for (query, _), choice in self._known.items()}

    def choice(self, query: str) -> Choice:
        """Of one query."""
        return self._choice(query, self._numbers(query))

    def _choice(self, query: str, numbers: Collection[int]) -> Choice:
        """The newest of these that can be read."""
        for number in sorted(numbers, reverse=True):
            found: Choice | None = self._read(Choice, _choice_name(query, number))
            if found is not None:
                return found
        return Choice()

    def versions(self, query: str | None = None) -> list[Learned]:
        """By query and version."""
        names = [stored.name for stored in self._store.names(FOLDER if query is None else f"{FOLDER}/{query}")]
        found = [known for name in names if name.endswith(".json") and (known := self._record_of(name)) is not None]
        return sorted(found, key=lambda one: (one.query, one.version))

    def version(self, query: str, version: int) -> Learned:
        """One version.

        Raises:
            CepError: there is none.
        """
        known = self._learned(query, version)
        if known is None:
            there = ", ".join(str(one.version) for one in self.versions(query)) or "none"
            raise CepError(f'query "{query}" has no model of version {version}\nhint: cep models ls shows them; there are: {there}')
        return known

    def content(self, learned: Learned) -> bytes | None:
        """The model's file; None where it is gone or damaged: another one will be learned."""
        try:
            content = self._store.read(learned.file)
        except MissingError:
            return None
        return content if sha256(content).hexdigest() == learned.digest else None

    def in_use(self) -> dict[str, Learned]:
        """By query, the versions that were chosen, whatever query they were learned for."""
        found = {query: self.chosen(query, choice) for query, choice in self.choices().items()}
        return {query: learned for query, learned in found.items() if learned is not None}

    def chosen(self, query: str, choice: Choice) -> Learned | None:
        """The version that a choice names; None where it is `NONE`, or gone."""
        return None if choice.version == NONE else self._learned(query, choice.version)

    def before(self, query: str, choice: Choice) -> Learned | None:
        """The version that was in use before the one that a choice names, for the same query as that; None where there is none. Where nobody noted it, the one taken last of those with lower numbers."""
        now = self.chosen(query, choice)
        if choice.before != NONE:
            known = self.chosen(query, Choice(choice.before))
            return known if known is None or now is None or known.fits_where(now) else None
        if now is None:
            return None
        earlier = [one for one in self.versions(query) if one.taken and one.version < now.version and one.fits_where(now)]
        return earlier[-1] if earlier else None

    def add(self, learned: Learned, content: bytes) -> Learned:
        """Keeps a model under the next version (damaged ones keep their numbers: one may be chosen), and lets the oldest go; what is in use stays as it was, and what was in use before it."""
        versions = self.versions(learned.query)
        numbers = [_number(stored.name) for stored in self._store.names(f"{FOLDER}/{learned.query}")]
        kept = replace(learned, version=1 + max(numbers, default=NONE), digest=sha256(content).hexdigest())
        self._store.write(kept.file, [content])
        self._record(kept)
        choice = self.choice(kept.query)
        before = self.before(kept.query, choice)
        staying = {choice.version, NONE if before is None else before.version}
        old = [one for one in [*versions, kept][:-KEPT] if one.version not in staying]
        self._store.delete(name for one in old for name in (one.file, _name(one.query, f"{one.version}.json")))
        return kept

    def choose(self, query: str, choice: Choice, instead_of: Choice | None = None) -> bool:
        """From the next deployment on this is in use.

        Args:
            query: whose model.
            choice: what is to be in use.
            instead_of: what was chosen when this was decided; None: whatever it was.

        Returns:
            False where somebody has chosen meanwhile, and nothing is changed.
        """
        numbers = self._numbers(query)
        number = 1 + max(numbers, default=0)
        now = self._choice(query, numbers)
        if instead_of is not None and now != instead_of:
            return False
        choice = replace(choice, before=next((one for one in (now.version, now.before) if one not in (NONE, choice.version)), NONE))
        self._store.write(_choice_name(query, number), [json.dumps(asdict(choice)).encode()])
        self._store.delete(_choice_name(query, old) for old in numbers if old != number - 1)
        known = self.chosen(query, choice)
        if known is not None and not known.taken:
            self._record(replace(known, taken=True))
        return True

    def retire(self, known: Collection[str], before_ms: int) -> list[str]:
        """Lets the models of queries go that nobody knows any more, the newest of which is older than that; returns the queries."""
        newest: dict[str, int] = {}
        for one in self.versions():
            newest[one.query] = max(newest.get(one.query, 0), one.learned_at_ms)
        gone = sorted(query for query, learned_at_ms in newest.items() if query not in known and learned_at_ms < before_ms)
        for query in gone:  # choices first: one of a version that is gone would be asked for
            for folder in (CHOICES, FOLDER):
                self._store.delete([stored.name for stored in self._store.names(f"{folder}/{query}")])
        return gone

    def _record(self, learned: Learned) -> None:
        self._store.write(_name(learned.query, f"{learned.version}.json"), [json.dumps(learned.to_plain()).encode()])

    def _numbers(self, query: str) -> list[int]:
        """Of a query's choices."""
        return [_number(stored.name) for stored in self._store.names(f"{CHOICES}/{query}")]

    def _learned(self, query: str, version: int) -> Learned | None:
        return self._record_of(_name(query, f"{version}.json"))

    def _record_of(self, name: str) -> Learned | None:
        """What is known of a version; None where its record is gone or damaged."""
        try:
            found: Learned | None = self._read(Learned, name)
        except MissingError:
            return None
        return found

    def _read(self, kind: type[Any], name: str) -> Any:
        """What a file says; None where it is damaged, which the log tells once.

        Raises:
            MissingError: there is none.
        """
        content = self._store.read(name)
        try:
            return remembered(kind, json.loads(content))
        except (ValueError, TypeError, AttributeError) as error:
            if name not in self._damaged:
                self._damaged.add(name)
                log.warning("a file of learned models is damaged, and left out", file=name, reason=str(error))
            return None


def _number(name: str) -> int:
    return int(name.rsplit("/", 1)[-1].partition(".")[0])


def _choice_name(query: str, number: int) -> str:
    return f"{CHOICES}/{query}/{number:08}.json"


def _name(query: str, name: str) -> str:
    return f"{FOLDER}/{query}/{name}"
