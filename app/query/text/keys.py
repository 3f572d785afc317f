"""What a query file may hold: one table of keys and the shapes of their values.

The reader (`app.query.tree.document`) checks files against it, and `schemas/query.schema.json` is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

EVENT_SHEDDERS = ("random", "universe", "bl", "espice", "gspice", "gspice-tree", "gspice-forest", "prefix")
WINDOW_SHEDDERS = ("e-bl",)
MATCH_SHEDDERS = ("pm-random", "pspice", "pspice-minus", "hspice", "stateful")
TUPLE_SHEDDERS = ("cals", "cals-v", "cals-i", "rand")
AUTO = "auto"
"""The application finds out which shedder loses least; `random` until it knows."""
SHEDDERS = ("none", AUTO, *EVENT_SHEDDERS, *WINDOW_SHEDDERS, *MATCH_SHEDDERS, *TUPLE_SHEDDERS)
STRATEGIES = ("skip-till-any-match", "skip-till-next-match", "strict-contiguity", "partition-contiguity")
AFTER = ("no-skip", "skip-past-last-event", "skip-to-next", "skip-to-first", "skip-to-last")
NAME_PATTERN = r"[a-z][a-z0-9-]*"


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, or one of a pattern; ``of`` says what it is when it does not fit, ``hint`` what to write."""

    pattern: str | None = None
    of: str = "a text"
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Expression:
    """A text in one of the languages of `app.query.tree.parse`."""

    language: OneOf["pattern", "condition", "value", "opener", "interval"]


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a range; a whole one where ``integer``."""

    low: float | None = None
    high: float | None = None
    integer: bool = False
    above: bool = False
    """Whether ``low`` itself is excluded."""


@dataclass(frozen=True, slots=True)
class Flag:
    """true or false."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Duration:
    """``5 s``; 0 only where allowed."""

    zero: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    """``500 events``, ``1000 tuples``."""

    unit: OneOf["events", "tuples"]


@dataclass(frozen=True, slots=True)
class Either:
    """One of several shapes; the first whose YAML kind fits."""

    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list; ``single`` also accepts one value for a list of one."""

    shape: Shape
    single: bool = False


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping from names (of a pattern) to values; ``of`` and ``hint`` as of `Text`, for a name that does not fit."""

    shape: Shape
    key_pattern: str = r".+"
    of: str = "a name"
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Anything:
    """Whatever the tests compare with."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a record."""

    name: str
    shape: Shape
    description: str
    required: bool = False
    default: object = None


@dataclass(frozen=True, slots=True)
class Record:
    """A mapping with known keys."""

    keys: tuple[Key, ...]

    def key(self, name: str) -> Key | None:
        """The key of this name."""
        return next((key for key in self.keys if key.name == name), None)


Shape = Text | Expression | Number | Flag | Choice | Duration | Count | Either | ListOf | MapOf | Anything | Record

_SIZE = Either((Duration(), Count("events")))
_VARIABLE = r"[^\W\d]\w*"

SHEDDING = Record(
    (
        Key("shedder", Choice(SHEDDERS), "Who decides what is dropped under overload, where there is a latency_bound", default=AUTO),
        Key("latency_bound", Duration(), "Composite events should not be later than this"),
        Key(
            "safety",
            Number(0, 1, above=True),
            "Under overload latencies settle at safety * latency_bound, or lower where batches scatter",
            default=0.8,
        ),
        Key("max_drop_ratio", Number(0, 1), "At most this share is dropped", default=0.99),
        Key("pane", _SIZE, "Length of a pane (gspice), in events or as a duration"),
        Key("allow_false_positives", Flag(), "false: never drop an event that a negation or a strict strategy needs", default=True),
        Key("memory", Count("tuples"), "Tuples kept per key (temporal queries)"),
        Key(
            "catch_up",
            Choice(("shed", "complete")),
            "After an outage: shed keeps the bound for new events, complete sheds nothing until it has caught up (watchdog.catch_up when not given)",
        ),
    )
)

LARGEST_VERSION = 2**31 - 1
"""Records hold it as an Avro int."""

QUERY = Record(
    (
        Key(
            "name",
            Text(NAME_PATTERN, "a name of small letters, digits and hyphens that begins with a letter", "write for instance shop-lifting"),
            "Unique; part of every composite event's identity",
            required=True,
        ),
        Key("version", Number(1, LARGEST_VERSION, integer=True), "Raised when the meaning changes", default=1),
        Key("title", Text(), "One line for people"),
        Key("labels", MapOf(Text()), "Free labels"),
        Key("enabled", Flag(), "false: validated, but not run", default=True),
        Key("weight", Number(0, above=True), "Importance used by the shedders", default=1.0),
        Key(
            "from",
            ListOf(Text(r"(query:)?[\w.-]+", "the name of a stream, or query:name", "names have letters, digits and . _ -"), single=True),
            "Streams that the query reads",
        ),
        Key("event", Expression("pattern"), "The pattern, for instance SEQ(A a, !(B b), C c)"),
        Key("where", Expression("condition"), "Predicates joined by AND"),
        Key("within", _SIZE, "First and last event of a match lie less than this apart"),
        Key(
            "window",
            Record(
                (
                    Key("size", _SIZE, "Length of a window"),
                    Key("slide", _SIZE, "Distance of the windows' starts; default: the size"),
                    Key("open", Expression("opener"), "A new window per such event: Quote q WHERE q.symbol = 'IBM'"),
                    Key("per", Choice(("partition",)), "Count windows within each partition"),
                    Key("range", _SIZE, "Length of a temporal query's window"),
                )
            ),
            "Explicit windows instead of within",
        ),
        Key("max_gap", Duration(), "Neighbouring events of a match lie less than this apart"),
        Key(
            "strategy",
            Either(
                (
                    Choice(STRATEGIES),
                    MapOf(
                        Choice(STRATEGIES),
                        rf"default|{_VARIABLE}(\[\])?",
                        "default, a variable, or a variable with []",
                        "write b, or 'b[]' in quotes",
                    ),
                )
            ),
            "Which events a match may pass over",
            default="skip-till-any-match",
        ),
        Key(
            "after",
            Text(
                rf"no-skip|skip-past-last-event|skip-to-next|skip-to-(first|last)\s+{_VARIABLE}",
                "one of no-skip, skip-past-last-event, skip-to-next, skip-to-first x, skip-to-last x",
                "x is a variable of the pattern, which skip-to-first and skip-to-last need and the others do not take",
            ),
            "What happens after a match",
            default="no-skip",
        ),
        Key("emit", Choice(("each", "longest", "changes", "all")), "each or longest match; changes or all of a temporal query"),
        Key(
            "return",
            MapOf(Expression("value"), r"[A-Za-z_][A-Za-z0-9_]*", "a field name of letters, digits and _", "it begins with a letter or _"),
            "Fields of the composite event",
        ),
        Key("select", ListOf(Text()), "Value attributes of a temporal query"),
        Key("key", ListOf(Text()), "Attributes that separate the streams of a temporal query"),
        Key(
            "coalesce",
            Record(
                (
                    Key("max_gap", Duration(zero=True), "Gaps up to this become part of the interval", default="0 s"),
                    Key("duration", Either((Choice(("until-next",)), Duration())), "How long a tuple is valid", required=True),
                )
            ),
            "Makes this a temporal query",
        ),
        Key("valid", Expression("interval"), 'Predicate on the coalesced interval, for instance ">= 3 minutes"'),
        Key("on_timeout", Choice(("drop", "emit")), "Partial matches that run out of window", default="drop"),
        Key(
            "output",
            Record(
                (
                    Key(
                        "topic",
                        Text(r"[A-Za-z0-9._-]{1,249}", "the name of a topic", "letters, digits and . _ -, at most 249"),
                        "Topic of the composite events",
                    ),
                    Key("key", Text(), "Return field that becomes the record key"),
                    Key(
                        "hold_for_verdict",
                        Flag(),
                        "true: composite events that a shed event is known to prevent are not written; their verdicts are",
                        default=False,
                    ),
                )
            ),
            "Where composite events go",
        ),
        Key("shedding", SHEDDING, "What is dropped under overload"),
        Key(
            "limits",
            Record(
                (
                    Key("matches_per_event", Number(1, integer=True), "Most matches that one event may complete", default=100_000),
                    Key(
                        "partial_matches_per_partition",
                        Number(1, integer=True),
                        "Most partial matches of a partition kept at once",
                        default=1_000_000,
                    ),
                    Key(
                        "state_bytes",
                        Number(1, integer=True),
                        "Most bytes of partial matches and of the events that they hold, in all buckets together; beyond, those of least worth are ended. Default: no limit",
                    ),
                )
            ),
            "Guards against queries that explode",
        ),
        Key("evaluator", Choice(("stacks", "runs")), "Which engine runs it; default: chosen by the planner"),
        Key("on_change", Choice(("restart", "drain")), "What happens to the state of the old version", default="restart"),
        Key(
            "tests",
            ListOf(
                Record(
                    (
                        Key("name", Text(), "What is shown", required=True),
                        Key("given", Text(), "Events, one per line: time type attribute=value …", required=True),
                        Key("expect", ListOf(MapOf(Anything())), "Some fields of every composite event", required=True),
                        Key(
                            "timeouts", ListOf(MapOf(Anything())), "Some fields of every timeout (on_timeout: emit); default: not looked at"
                        ),
                    )
                )
            ),
            "Tests of the query",
        ),
    )
)
