"""``cep test``: runs the tests that query files carry."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from xml.sax.saxutils import quoteattr

import numpy as np
import orjson
import typer

from app.bootstrap.kernels import warm_kernels
from app.bucket.recording import match_sorted
from app.bucket.values import field_values, json_fields
from app.cep.matches import Matches
from app.cli.inputs.query_streams import configured_schemas, print_findings, require_queries, settings_of
from app.cli.output import Output, OutputOption, require_folders, write_json
from app.cli.settings_file import StreamsFile
from app.cli.whole_files import write_whole
from app.config.settings import Settings
from app.errors import CepError, FindingsError
from app.events.batch import EventBatch, concatenate_streams, in_total_order, take
from app.events.conform import conformed
from app.events.types import Attribute, EventType, Kind, StreamSchema
from app.files.gathering import FileEvents, parse_events
from app.files.row_files import FileFormat
from app.owners.tuple_memory import tuple_memory
from app.query.compile import Compilation, Compiled, compile_texts, elements_in, query_files, read_queries
from app.query.plan import QUERY_STREAM, Catalog, Plan
from app.query.resolved.assumed import assumed_schemas
from app.query.resolved.vocabulary import UNKNOWN, Streams
from app.query.tree.elements import mentioned_elements
from app.query.tree.inline_tests import QueryTest

Fields = dict[str, Any]
Runnable = tuple[Plan, tuple[QueryTest, ...], dict[str, StreamSchema]]
"""A query's plan and tests, and the schemas that it was compiled against."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test went.

    Attributes:
        missing: expectations that no composite event met.
        surplus: fields of composite events that nothing expected.
        missing_timeouts, surplus_timeouts: the same of timeouts.
    """

    query: str
    test: str
    missing: tuple[Fields, ...]
    surplus: tuple[Fields, ...]
    seconds: float
    missing_timeouts: tuple[Fields, ...] = ()
    surplus_timeouts: tuple[Fields, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether expectations and composite events are one to one."""
        return not (self.missing or self.surplus or self.missing_timeouts or self.surplus_timeouts)

    def explanation(self) -> str:
        """What is wrong, line by line."""
        return "\n".join(
            f"{what}: {_shown(fields)}"
            for what, those in (
                ("expected, not found", self.missing),
                ("found, not expected", self.surplus),
                ("timeout expected, not found", self.missing_timeouts),
                ("timeout found, not expected", self.surplus_timeouts),
            )
            for fields in those
        )


def test(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Query files or folders of them.")],
    only: Annotated[str | None, typer.Option(help='Run only tests of which "query: name" holds this text.')] = None,  # noqa: PT028 - a command, no test
    junit: Annotated[Path | None, typer.Option(help="Write the outcomes as JUnit XML, for CI systems.")] = None,  # noqa: PT028 - a command, no test
    config: StreamsFile = None,  # noqa: PT028
    output: OutputOption = Output.text,  # noqa: PT028
) -> None:
    """Run the tests: blocks of query files; exit 0 when all pass, 1 otherwise.

    Without --settings the attributes and their types are those that each query and the lines of its own tests mention.
    """
    require_folders(junit)
    outcomes = run_tests(paths, settings_of(config), only, warm_kernels)
    for outcome in outcomes:
        if output is Output.json:
            write_json({**asdict(outcome), "passed": outcome.passed})
            continue
        print(f"{'ok  ' if outcome.passed else 'FAIL'} {outcome.query}: {outcome.test}")
        if not outcome.passed:
            print("       " + outcome.explanation().replace("\n", "\n       "))
    failed = sum(not outcome.passed for outcome in outcomes)
    if output is Output.text:
        print(f"{len(outcomes) - failed} passed, {failed} failed")
    if junit is not None:
        write_whole(junit, junit_xml(outcomes).encode())
    if failed:
        raise typer.Exit(1)


def _at_once() -> None:
    """Nothing is to be done first."""


def run_tests(
    paths: list[Path], settings: Settings | None = None, only: str | None = None, prepare: Callable[[], None] = _at_once
) -> list[Outcome]:
    """The outcomes of all tests of all enabled and disabled queries.

    Args:
        paths: query files and folders.
        settings: for the streams' schemas.
        only: of tests of which "query: name" holds this text.
        prepare: called before the first test, when nothing is wrong with the queries.

    Raises:
        FindingsError: queries that cannot run.
        CepError: no test is called so.
    """
    files = query_files(paths)
    known = configured_schemas(settings, elements_in(paths)) if settings else {}
    first = read_queries(paths, Streams(known, UNKNOWN.everything))
    broken = [finding for finding in first.errors if not known or finding.location is None or finding.location.path in map(str, files)]
    if broken:
        raise FindingsError(broken)
    require_queries(first, paths)
    chosen = first.queries if only is None else _chosen(first.queries, only)
    if only is not None and not chosen:
        raise CepError(f'no test of these queries holds "{only}" in its name')
    runnable = [_runnable(query, known, first) for query in chosen]
    if any(query.tests for query in chosen):
        prepare()
    return [_outcome(plan, one, schemas) for plan, tests, schemas in runnable for one in tests]


def _chosen(queries: Iterable[Compiled], only: str) -> tuple[Compiled, ...]:
    """The queries with those of their tests that are meant; without those that have none."""
    wanted = [replace(query, tests=tuple(one for one in query.tests if only in f"{query.name}: {one.name}")) for query in queries]
    return tuple(query for query in wanted if query.tests)


def _runnable(query: Compiled, known: dict[str, StreamSchema], compiled: Compilation) -> Runnable:
    """The query with the plan that its own events' schema gives.

    Raises:
        FindingsError: it has none.
    """
    guessed = _guessed(query, known, compiled)
    if guessed is None:
        path = Path(query.document.node.file.path)
        again, schemas = compile_texts([(str(path), path.read_text(encoding="utf-8"))], _streams_of(query, known, path)), known
    else:
        again, schemas = guessed
    own = again.query(query.name)
    if own is None or own.plan is None:
        print_findings(again.warnings)
        raise FindingsError(again.errors)
    chosen = {one.name for one in query.tests}
    return own.plan, tuple(one for one in own.tests if one.name in chosen), schemas


def _guessed(query: Compiled, known: dict[str, StreamSchema], compiled: Compilation) -> tuple[Compilation, dict[str, StreamSchema]] | None:
    """The query against configured schemas, and for other streams one that has whatever the query and its tests mention.

    An attribute that the query speaks of and no line gives is null, not a mistake. None where guessed kinds do not fit the query.
    """
    if query.resolved is None:
        return None
    path = Path(query.document.node.file.path)
    guessed = assumed_schemas(query.resolved, query.tests)
    for stream in [stream for stream in guessed if stream.startswith(QUERY_STREAM)]:
        upper = compiled.query(stream.removeprefix(QUERY_STREAM))
        guessed[stream] = _with_fields(guessed[stream], None if upper is None else _guessed(upper, known, compiled), upper)
    schemas = {**guessed, **known}
    again = compile_texts([(str(path), path.read_text(encoding="utf-8"))], Streams(schemas, UNKNOWN.everything))
    own = again.query(query.name)
    return None if own is None or own.plan is None else (again, schemas)


def _with_fields(schema: StreamSchema, guessed: tuple[Compilation, dict[str, StreamSchema]] | None, query: Compiled | None) -> StreamSchema:
    """The composite events of another query: its fields. Times and durations are what they are there; the rest is what the tests' lines look like."""
    own = None if guessed is None or query is None else guessed[0].query(query.name)
    if own is None or own.plan is None:
        return schema
    looks = {attribute.name: attribute for kind in schema.types if kind.name == own.name for attribute in kind.attributes}
    fields = {
        field.name: Attribute(field.name, field.kind, nullable=True)
        for field in own.plan.returns
        if not field.array and (field.name not in looks or field.kind in (Kind.TIME, Kind.DURATION))
    }
    others = tuple(kind for kind in schema.types if kind.name != own.name)
    return StreamSchema(schema.stream, (*others, EventType(own.name, tuple({**looks, **fields}.values()))))


def _streams_of(query: Compiled, known: dict[str, StreamSchema], path: Path) -> Streams:
    """The configured schemas, or one inferred from the events of all tests of the query."""
    events = [event for one in query.tests for event in one.events]
    inferred = parse_events(_json_lines(events), _format(path), str(path)).schema
    return Streams(known, StreamSchema("events", inferred.types, None, inferred=True))


def _outcome(plan: Plan, one: QueryTest, known: dict[str, StreamSchema]) -> Outcome:
    started = time.perf_counter()
    steps = match_sorted(Catalog.of((plan,)), _batch(plan, one, known), memory_of=tuple_memory).found
    missing, surplus = unmatched(one.expect, _fields(plan, [step.matches for step in steps]))
    expired: tuple[tuple[Fields, ...], tuple[Fields, ...]] = ((), ())
    if one.timeouts is not None:
        expired = unmatched(one.timeouts, _fields(plan, [step.timeouts for step in steps if step.timeouts is not None]))
    return Outcome(plan.name, one.name, missing, surplus, time.perf_counter() - started, *expired)


def _batch(plan: Plan, one: QueryTest, known: dict[str, StreamSchema]) -> EventBatch:
    own = [event for event in one.events if event.get("stream") in (None, *plan.streams)]
    file = parse_events(_json_lines(own))
    schemas = [schema for stream in plan.streams if (schema := known.get(stream)) is not None]
    if len(schemas) < len(plan.streams):
        return in_total_order(file.batch)
    if all(schema.types == schemas[0].types for schema in schemas):
        return in_total_order(conformed(file.batch, schemas[0]).batch)
    return in_total_order(concatenate_streams(list(_by_stream(file, schemas))))


def _by_stream(file: FileEvents, schemas: list[StreamSchema]) -> Iterator[EventBatch]:
    """The events as each stream has them: what a type has in one it may lack in another. A line that names no stream is one of the first that can have it."""
    taken = np.empty(0, np.int64)
    for schema in schemas:
        own = file.of_stream(schema.stream)
        found = conformed(own.batch, schema)
        lines = own.lines[found.rows]
        yield take(found.batch, np.flatnonzero(~np.isin(lines, taken)))
        taken = np.concatenate([taken, lines])


def _format(path: Path) -> FileFormat:
    return FileFormat(elements=mentioned_elements([(str(path), path.read_text(encoding="utf-8"))]))


def _json_lines(events: Any) -> bytes:
    return b"".join(orjson.dumps(event) + b"\n" for event in events)


def _fields(plan: Plan, tables: list[Matches]) -> list[Fields]:
    """The return fields of all matches."""
    found: list[Fields] = []
    for matches in tables:
        columns = {field.name: field_values(matches.fields[field.name], field.kind) for field in plan.returns}
        found += [json_fields({name: column[k] for name, column in columns.items()}) for k in range(len(matches))]
    return found


def unmatched(expected: tuple[Any, ...], found: list[Fields]) -> tuple[tuple[Fields, ...], tuple[Fields, ...]]:
    """Pairs expectations with composite events, each with at most one (augmenting paths); what is left on either side.

    >>> unmatched(({"a": 1}, {}), [{"a": 1, "b": 2}, {"a": 3}])
    ((), ())
    """
    partner: dict[int, int] = {}
    fits = [[k for k, fields in enumerate(found) if _meets(fields, one)] for one in expected]

    def place(one: int, seen: set[int]) -> bool:
        for k in fits[one]:
            if k not in seen:
                seen.add(k)
                if k not in partner or place(partner[k], seen):
                    partner[k] = one
                    return True
        return False

    missing = tuple(dict(one) for number, one in enumerate(expected) if not place(number, set()))
    return missing, tuple(fields for k, fields in enumerate(found) if k not in partner)


def _meets(fields: Fields, expected: Any) -> bool:
    return all(name in fields and _equal(fields[name], value) for name, value in expected.items())


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, float) and isinstance(wanted, int | float):
        return abs(value - wanted) <= 1e-9 * max(1.0, abs(wanted))
    return bool(value == wanted)


def _shown(fields: Fields) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in fields.items()) + "}"


def junit_xml(outcomes: list[Outcome]) -> str:
    """The outcomes as JUnit XML, one suite per query."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for query in dict.fromkeys(outcome.query for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.query == query]
        failures = sum(not outcome.passed for outcome in own)
        lines.append(
            f'  <testsuite name={quoteattr(query)} tests="{len(own)}" failures="{failures}" time="{sum(o.seconds for o in own):.3f}">'
        )
        for outcome in own:
            head = f'    <testcase classname={quoteattr(query)} name={quoteattr(outcome.test)} time="{outcome.seconds:.3f}"'
            if outcome.passed:
                lines.append(f"{head}/>")
            else:
                lines += [f"{head}>", f"      <failure message={quoteattr(outcome.explanation())}/>", "    </testcase>"]
        lines.append("  </testsuite>")
    return "\n".join([*lines, "</testsuites>"]) + "\n"
