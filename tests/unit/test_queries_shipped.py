"""The shipped queries: their own tests, every operator, perfect precision and recall on generated streams, what they find in recordings."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from app.bucket.recording import match_sorted
from app.bucket.values import plain_values
from app.cli.inputs.query_streams import configured_schemas, settings_of
from app.cli.queries.test import run_tests
from app.events.batch import EventBatch, concatenate
from app.local.generators import generate
from app.local.recordings import RECORDINGS, default_folder, read_recording
from app.query.compile import Compilation, query_files, read_queries
from app.query.plan import Catalog

PROJECT = Path(__file__).parents[2]
QUERIES = PROJECT / "queries"
DEMO = settings_of(PROJECT / "app" / "local" / "quickstart.yaml")
ALL = settings_of(PROJECT / "app" / "local" / "all-streams.yaml")
OPERATORS = {
    "one or more": r"\w\+ ?[,)u!]|\w\+,",
    "any number": r"\w\*[,)]",
    "optional item": r" \w+\?\)",
    "optional group": r"\)\)\?",
    "so many": r"\w\{\d\}",
    "from so many": r"\w\{\d,\}",
    "from to": r"\w\{\d,\d\}",
    "reluctant": r"\+\?",
    "repeated group": r"\)\)\{\d\}",
    "AND": r"event: AND\(",
    "OR": r", OR\(",
    "one of several types": r"ANY\([A-Z]\w+, \w+\) \w",
    "several types": r"ANY\(\d; \w+, \w+",
    "several that differ": r"ANY\(\d; \w+ BY \w+\)",
    "negated start": r"SEQ\(!\(",
    "negated middle": r"\w, !\(\w+ \w+\), \w",
    "negated end": r"!\(\w+ \w+\)\)\n",
    "negated for": r"!\(.*\) FOR \d",
    "negated AND": r"!\(AND\(",
    "UNTIL": r"UNTIL \(",
    "skip-till-any-match for further elements": r"\w\[\]': skip-till-any-match",
    "skip-till-next-match": r"strategy: skip-till-next-match",
    "strict-contiguity": r"strategy: strict-contiguity",
    "partition-contiguity": r"strategy: partition-contiguity",
    "an item's strategy": r"strategy: \{default: .*, \w+: partition-contiguity",
    "an element's strategy": r"\w\[\]': partition-contiguity",
    "one another": r"\[i\]\.\w+ .*\[i-1\]",
    "first": r"\[first\]",
    "last": r"\[last\]",
    "counted element": r"\[1\]",
    "bare list": r"tags: \w+\.tag_id",
    **{f"{name}()": rf"\b{name}\(\w+[.)]" for name in ("count", "sum", "avg", "min", "max", "first", "last")},
    "running aggregate": r"\[\.\.i\]",
    "running aggregate of those before": r"\[\.\.i-1\]",
    "within time": r"within: \d+ (s|min|h|d)",
    "within events": r"within: \d+ events",
    "max_gap": r"\nmax_gap: ",
    **{
        f"after: {policy}": rf"\nafter: {policy}"
        for policy in ("no-skip", "skip-past-last-event", "skip-to-next", "skip-to-first", "skip-to-last")
    },
    "emit: longest": r"emit: longest",
    "tumbling window": r"window: \{size: \d+ \w+\}",
    "sliding window": r"window: \{size: \d+ s, slide",
    "sliding count window": r"window: \{size: \d+ events, slide: \d+ events\}",
    "count window per partition": r"window: \{size: \d+ events, slide: \d+ events, per: partition\}",
    "window opened by an event": r"window: \{size: \d+ events, open:",
    "timeouts": r"on_timeout: emit[\s\S]*timeouts:",
    "composition": r"from: \[query:",
    "coalesce until-next": r"duration: until-next",
    "coalesce with a duration": r"duration: \d",
    "temporal count window": r"range: \d+ events",
    "emit: all": r"emit: all",
    "haversine": r"haversine\(",
    "distance": r"distance\(",
    "LIKE": r" LIKE '",
    "IN": r" IN \(",
    "NOT IN": r" NOT IN \(",
    "BETWEEN": r" BETWEEN ",
    "IS NULL": r" IS NOT NULL",
    "limits": r"\nlimits: ",
    "latency bound": r"latency_bound",
}
"""What a query has to have in its text to count as one that shows the operator."""


@cache
def shipped() -> Compilation:
    """The queries of the quick start."""
    compilation = read_queries(DEMO.queries.paths, configured_schemas(DEMO))
    assert not compilation.errors, [finding.render() for finding in compilation.errors]
    return compilation


def found_in(stream: str, batch: EventBatch) -> dict[str, list[dict[str, object]]]:
    """By query of the stream, the return fields of all its composite events."""
    catalog = Catalog.of(tuple(plan for plan in shipped().catalog.plans if plan.streams == (stream,)))
    found: dict[str, list[dict[str, object]]] = {plan.name: [] for plan in catalog.plans}
    for one in match_sorted(catalog, batch).found:
        plan = catalog.plans[one.query]
        columns = [plain_values(one.matches.fields[field.name], field.kind) for field in plan.returns]
        names = [field.name for field in plan.returns]
        found[plan.name] += [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]
    return found


def test_the_quick_start_takes_the_queries_beside_the_folders_none_of_which_needs_runs() -> None:
    assert {path.resolve() for path in DEMO.queries.paths} == {path.resolve() for path in QUERIES.glob("*.yaml")}
    assert {plan.evaluator for plan in shipped().catalog.plans} == {"stacks", "coalesce"}, "the kernels for runs take minutes to compile"


def test_all_shipped_queries_fit_the_shipped_streams_and_have_names_of_their_own() -> None:
    compilation = read_queries(ALL.queries.paths, configured_schemas(ALL))
    assert not compilation.errors, [finding.render() for finding in compilation.errors]
    assert len(compilation.catalog.plans) == len(query_files([QUERIES]))


@pytest.mark.parametrize("operator", OPERATORS)
def test_some_shipped_query_shows_the_operator(operator: str) -> None:
    texts = [re.sub(r"^#.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE) for path in query_files([QUERIES])]
    assert any(re.search(OPERATORS[operator], text) for text in texts)


@pytest.mark.slow
@pytest.mark.parametrize("path", query_files([QUERIES]), ids=lambda path: path.stem)
def test_a_shipped_query_has_tests_and_passes_them(path: Path) -> None:
    read = [QUERIES / f"{query}.yaml" for query in re.findall(r"query:([a-z-]+)", path.read_text(encoding="utf-8"))]
    outcomes = [outcome for outcome in run_tests([path, *read], ALL) if outcome.query == path.stem]
    assert len(outcomes) >= 3
    assert [outcome.explanation() for outcome in outcomes if not outcome.passed] == []


@pytest.mark.parametrize(
    ("kind", "events", "rate_per_s"),
    [
        ("retail", 20_000, 5),
        ("retail", 20_000, 5000),
        ("stocks", 50_000, 10),
        ("stocks", 50_000, 1000),
        ("sensors", 30_000, 20),
        ("vehicles", 30_000, 3),
    ],
)
def test_precision_and_recall_on_generated_streams_are_one(kind: str, events: int, rate_per_s: float) -> None:
    stream = generate(kind, events, seed=11, rate_per_s=rate_per_s)
    found = found_in(stream.stream, concatenate(stream.batches))
    for query, truth in stream.truth.items():
        assert len(truth.expected) >= 5, query
        assert truth.score(found[query]) == (1.0, 1.0), query


def rows_of_the_readme() -> dict[str, dict[str, tuple[int, int]]]:
    """Recording → query → (events, matches), as the README says."""
    rows: dict[str, dict[str, tuple[int, int]]] = {name: {} for name in RECORDINGS}
    table = re.findall(r"^\| (\S+) \| ([\d,]+) \| (\S+) \| ([\d,]+) \|$", (QUERIES / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    for name, events, query, matches in table:
        rows[name][query] = (int(events.replace(",", "")), int(matches.replace(",", "")))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_readme_says_what_the_recordings_give(name: str) -> None:
    if not (default_folder() / RECORDINGS[name].file).is_file():
        pytest.skip("the recordings are not here")
    recording = read_recording(name)
    batch = concatenate(recording.batches)
    counts = Counter({query: len(found) for query, found in found_in(recording.stream, batch).items() if found})
    written = rows_of_the_readme()[name]
    assert written
    assert {query: (len(batch), count) for query, count in counts.items()} == written


def test_every_shipped_query_is_described() -> None:
    text = (QUERIES / "README.md").read_text(encoding="utf-8").partition("## The shipped queries")[2]
    assert {path.stem for path in query_files([QUERIES])} == set(re.findall(r"^\| `(\S+)` \|", text, re.MULTILINE))
