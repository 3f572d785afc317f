"""What is said of overload is what `overload.json` has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ops.bench.overload.judged import Row
from ops.bench.overload.page import HERE, page


def a_row(shedder: str = "bl", rate: str = "120%", bound_ms: int | None = 1000, **values: Any) -> dict[str, object]:
    known: dict[str, Any] = {
        "composites": 5,
        "p99_ms": 900.0,
        "drop_ratio": 0.3,
        "drop_ratio_sd": 0.01,
        "recall": 0.5,
        "capacity_per_s": 1000,
    }
    return Row("engine", shedder, rate, "dear" if bound_ms else "free", bound_ms, **{**known, **values}).to_plain()


def promises(*rows: dict[str, object]) -> dict[str, list[str]]:
    """By their first words: where they hold, and where not."""
    lines = [line.strip("| ").split(" | ") for line in page({"runs": list(rows)}).splitlines() if line.startswith("| ")]
    return {" ".join(line[0].split()[:3]): line[1:] for line in lines}


def test_the_committed_page_is_made_from_the_committed_figures() -> None:
    assert (HERE / "overload.md").read_text() == page(json.loads((HERE / "overload.json").read_text()))


def test_a_missed_bound_is_named_and_bold() -> None:
    rows = (a_row(p99_ms=1000.0), a_row(rate="140%", p99_ms=1001.0), a_row(rate="160%", p99_ms=None), a_row(bound_ms=None, p99_ms=9999.0))
    assert promises(*rows)["p99 is at"] == ["1 of 2", "engine `bl` 140% dear 1,001 ms"]
    assert "| 140% | `dear`, 1 s | **1,001**, 0.30 ± 0.01, 0.50 |" in page({"runs": rows})
    assert "| 160% | `dear`, 1 s | nothing found, 0.30 ± 0.01 |" in page({"runs": rows})


def test_bounds_of_several_machines_stand_beside_each_other() -> None:
    rows = (a_row(bound_ms=1130, p99_ms=1100.0), a_row("random", p99_ms=1100.0))
    assert "| 120% | `dear`, 1 or 1.13 s | **1,100**, 0.30 ± 0.01, 0.50 | 1,100, 0.30 ± 0.01, 0.50 |" in page({"runs": rows})


@pytest.mark.parametrize(
    ("row", "promise", "held"),
    [
        (a_row(drop_ratio_sd=0.05), "the ratio's standard", "0 of 1"),
        (a_row(drop_ratio_sd=0.049), "the ratio's standard", "1 of 1"),
        (a_row(rate="burst", drop_ratio_sd=0.2), "the ratio's standard", "0 of 0"),
        (a_row(bound_ms=None, recall=0.99), "queries without a", "0 of 1"),
        (a_row(bound_ms=None, recall=1.0), "queries without a", "1 of 1"),
        (a_row(rate="all", true_recall_in_interval=False), "the live estimate's", "0 of 1"),
        (a_row(rate="all", false_positives=7, false_positives_without_verdict=2, wrongly_confirmed=1), "every false composite", "4 of 7"),
        (a_row(rate="all", false_positives=8, unverifiable=2), "verdicts `UNVERIFIABLE`, also", "25.0 %"),
    ],
)
def test_what_does_not_hold_is_counted(row: dict[str, object], promise: str, held: str) -> None:
    assert promises(row)[promise][0] == held


def test_a_run_with_a_ratio_of_its_own_is_counted_apart() -> None:
    own = a_row(rate="all", false_positives=900, unverifiable=9, forced=True)
    rows = (a_row(rate="all", false_positives=10, unverifiable=2), own, a_row(forced=True, p99_ms=1500.0, drop_ratio=0.375))
    told = [line for line in page({"runs": list(rows)}).splitlines() if line.startswith(("| every false", "| verdicts"))]
    assert [line.split(" | ")[1] for line in told] == ["10 of 10", "20.0 %", "900 of 900", "1.0 %"]
    assert promises(*rows)["p99 is at"][0] == "0 of 0"
    assert "its drop ratio is set (0.375) and no watchdog keeps its bound (p99 1,500 ms)" in page({"runs": list(rows)})


def test_where_there_was_nothing_to_find_no_recall_is_told() -> None:
    text = page({"runs": [a_row(recall=None, foretold_recall=0.4)]})
    assert "900, 0.30 ± 0.01, nothing to find |" in text
    assert "foretold from other events" not in text


@pytest.mark.parametrize(("found", "held"), [(0.65, "1 of 1"), (0.55, "0 of 1"), (0.95, "1 of 1")])
def test_what_was_foretold_is_compared_with_what_random_gave(found: float, held: str) -> None:
    chance = a_row("random", recall=0.3, foretold_recall=0.4)
    assert promises(chance, a_row(recall=found, foretold_recall=0.8))["recall is better"][0] == held
    assert (
        promises(a_row("random", recall=0.3, foretold_recall=0.4, capacity_per_s=2000), a_row(foretold_recall=0.8))["recall is better"][0]
        == "0 of 0"
    )


def test_how_fast_the_processor_was_is_told_where_it_was_noted() -> None:
    assert "processor" not in page({"runs": [a_row()]})
    assert "deviates by 0.06 to 0.25 of its mean" in page(
        {"runs": [a_row(), a_row(rate="140%", speed_sd=0.06), a_row(rate="160%", speed_sd=0.25)]}
    )


def test_rows_of_earlier_versions_lack_some_fields() -> None:
    row = a_row()
    del row["forced"], row["capacity_per_s"], row["speed_sd"]
    assert promises(row)["p99 is at"][0] == "1 of 1"
