"""The SASE paper's experiments: every plan, every optimisation switched off, and the product find the same matches; plots and figures are written."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from ops.experiments.sase import __main__ as main
from ops.experiments.sase.kernels import ABSENT, BEHIND, DYNAMIC, MULTI, MULTI_WHOLE, NONE, PUSHED, SELECTED
from ops.experiments.sase.measure import Figure, once
from ops.experiments.sase.plans import Stream, Switches, basic, joins, stacks
from ops.experiments.sase.verdicts import verdicts_of
from ops.experiments.sase.workloads import FAMILIES, PRODUCT

EXPERIMENTS = Path(main.__file__).parents[1]


def stream(seed: int, count: int = 60) -> Stream:
    """Few types and values, so that much matches."""
    random = np.random.default_rng(seed)
    types = random.choice([0, 1, 2, 3, ABSENT], count)
    return Stream(types, *(random.integers(0, size, count) for size in (3, 2, 10)))


def sequences(events: Stream, length: int) -> list[tuple[int, ...]]:
    """All rows of these types in this order."""
    return [
        rows for rows in combinations(range(len(events.types)), length) if all(events.types[row] == kind for kind, row in enumerate(rows))
    ]


def matches(events: Stream, found: list[tuple[int, ...]], window: int, switches: Switches, counted_from: int) -> int:
    """The definition: how many of all sequences are matches, one by one."""
    return sum(rows[-1] >= counted_from and is_match(events, rows, window, switches) for rows in found)


def is_match(events: Stream, rows: tuple[int, ...], window: int, switches: Switches) -> bool:
    alike = [events.first, *([events.second] if switches.second else [])] if switches.equal else []
    if any(len({int(line[row]) for row in rows}) > 1 for line in alike) or events.simple[rows[0]] >= switches.most:
        return False
    between = range(rows[-2] + 1, rows[-1])
    absent = [row for row in between if events.types[row] == ABSENT]
    absent = [row for row in absent if not switches.equal or events.first[row] == events.first[rows[-1]]]
    return rows[-1] - rows[0] < window and not (switches.negation and absent)


SWITCHES = [
    Switches(partitioned, equal or partitioned, second if equal or partitioned else NONE, scan, construction, most, early, negation)
    for partitioned, equal, second, scan, construction, (most, early), negation in product(
        (True, False),
        (True, False),
        (NONE, SELECTED, DYNAMIC, MULTI, MULTI_WHOLE),
        (True, False),
        (True, False),
        ((1 << 40, True), (6, True), (6, False)),
        (0, BEHIND, PUSHED),
    )
]


@pytest.mark.parametrize("length", [2, 3, 4])
def test_every_combination_of_switches_finds_what_the_definition_says(length: int) -> None:
    events, window = stream(length), 25
    found = sequences(events, length)
    wanted = {one: matches(events, found, window, one, 10) for one in dict.fromkeys(SWITCHES)}
    assert len(wanted) > 200
    assert max(wanted.values()) > 20
    assert len(set(wanted.values())) > 5
    assert {one: stacks(one)(events, length, window, 10).matches for one in wanted} == wanted


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_basic_and_joins_find_what_the_definition_says(seed: int) -> None:
    events = stream(seed)
    for length in (2, 3, 4):
        found = sequences(events, length)
        free = matches(events, found, 20, Switches(equal=False), 10)
        assert basic(events, length, 20, 10).matches == free > 0
        for ordered in (False, True):
            for second in (NONE, SELECTED):
                wanted = matches(events, found, 20, Switches(second=second), 10)
                assert joins(second=bool(second), ordered=ordered)(events, length, 20, 10).matches == wanted


@pytest.mark.parametrize("name", FAMILIES)
def test_all_curves_of_a_family_that_ask_the_same_find_the_same(name: str) -> None:
    found: dict[tuple[float, str, str], set[int]] = defaultdict(set)
    for workload in FAMILIES[name].workloads():
        small = replace(
            workload, window=400 if workload.x != workload.window else workload.window // 50, domain=min(workload.domain, 15), domain_2=3,
            types=min(workload.types, 20),
        )  # fmt: skip
        ran = once(small, 1500)
        assert ran.events == 1500
        asked = workload.where.replace("[a1]", "e0.a1 = e1.a1 AND e1.a1 = e2.a1").replace("[a2]", "e0.a2 = e1.a2 AND e1.a2 = e2.a2")
        found[workload.x, workload.event, asked].add(ran.counted.matches)
    assert len(found) >= 3
    assert all(len(numbers) == 1 for numbers in found.values()), found
    assert max(max(numbers) for numbers in found.values()) > 0


def test_windows_and_dynamic_filtering_save_sequences() -> None:
    events = stream(1, 400)
    made = {
        (scan, construction): stacks(Switches(window_in_scan=scan, window_in_construction=construction))(events, 3, 25, 0).sequences
        for scan in (True, False)
        for construction in (True, False)
    }
    assert made[True, True] <= made[False, True] < made[True, False] < made[False, False]
    done = {how: stacks(Switches(second=how))(events, 3, 25, 0) for how in (SELECTED, DYNAMIC, MULTI)}
    assert done[DYNAMIC].sequences < done[MULTI].sequences <= done[SELECTED].sequences
    assert done[MULTI].begun < done[SELECTED].begun


def test_figures_plots_and_verdicts_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sase", str(tmp_path), "--only", "length", "--events", "500", "--repeats", "1"])
    main.main()
    written = json.loads((tmp_path / "sase.json").read_text())
    assert sorted({figure["x"] for figure in written["figures"]}) == [2, 3, 4, 5, 6]
    assert all(min(figure["m_events_per_s"]) > 0 for figure in written["figures"])
    assert [one["claim"] for one in written["verdicts"]] == ["figure 11"]
    assert (tmp_path / "length.png").stat().st_size > 1000


def speeds(basic_at_100: float) -> list[Figure]:
    lines = {"AIS": (40.0, 50.0), "Basic": (basic_at_100, 45.0), PRODUCT: (60.0, 60.0)}
    return [
        Figure("basic", curve, x, 1000, 10, 10, 10, 10, (value, value * 0.8))
        for curve, line in lines.items()
        for x, value in zip((100, 10_000), line, strict=True)
    ]


@pytest.mark.parametrize(("basic_at_100", "status"), [(2.0, "reproduced"), (10.0, "shape reproduced"), (39.0, "not reproduced")])
def test_a_verdict_can_come_out_either_way(basic_at_100: float, status: str) -> None:
    assert verdicts_of(speeds(basic_at_100))[0].status == status


@pytest.mark.parametrize(
    ("sase", "join", "status"),
    [(5.0, 1.2, "reproduced"), (5.0, 3.0, "shape reproduced"), (5.0, 6.0, "not reproduced"), (1.2, 1.1, "not reproduced")],
)
def test_whether_a_second_test_helps_only_sase_is_a_claim_of_its_own(sase: float, join: float, status: str) -> None:
    speed = {
        "SASE, one test": 4.0,
        "SASE, two tests": 4.0 * sase,
        "join, one test": 1.0,
        "join, two tests": join,
        "join in order, one test": 2.0,
    }
    figures = [
        Figure("join-domain-size", curve, x, 1000, 10, 10, 10, 10, (value if x == 10 else 400.0,))
        for curve, value in speed.items()
        for x in (10, 10_000)
    ]
    assert {one.claim: one.status for one in verdicts_of(figures)} == {"figure 12": "reproduced", "figure 12, second test": status}


def test_the_readme_names_every_family() -> None:
    text = (EXPERIMENTS / "README.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in FAMILIES)
