"""The shipped queries: their own tests, perfect precision and recall on generated streams, and what they find in recordings."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from app.bucket.composite import plain_values
from app.bucket.recording import match_sorted
from app.cli.query_streams import configured_schemas, settings_of
from app.cli.test import run_tests
from app.events.batch import EventBatch, concatenate
from app.local.generators import generate
from app.local.recordings import RECORDINGS, default_folder, read_recording
from app.query.compile import Compilation, read_queries
from app.query.plan import Catalog

PROJECT = Path(__file__).parents[2]
QUERIES = PROJECT / "queries"
SETTINGS = settings_of(PROJECT / "app" / "local" / "quickstart.yaml")


@cache
def shipped() -> Compilation:
    compilation = read_queries([QUERIES], configured_schemas(SETTINGS))
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


@pytest.mark.parametrize("path", sorted(QUERIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_query_has_tests_and_passes_them(path: Path) -> None:
    outcomes = run_tests([path], SETTINGS)
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
    text = (QUERIES / "README.md").read_text(encoding="utf-8")
    assert {path.stem for path in QUERIES.glob("*.yaml")} == set(re.findall(r"^\| `(\S+)` \|", text, re.MULTILINE))
