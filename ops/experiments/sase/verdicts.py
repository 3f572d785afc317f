"""What became of the paper's claims, from committed figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from ops.experiments.sase.measure import Figure
from ops.experiments.sase.workloads import PRODUCT
from ops.experiments.shedding_verdicts import Verdict, verdict

WIDE = 1.5
"""A wide margin, as a factor."""
ALIKE = 1.25
"""Plans within this factor are alike."""
PAPERS_NS = 25_000
"""Of an event: 40,000 per second (section 7)."""
SECOND = {"second-equivalence": "10(a), 20 values", "second-of-5": "10(b), 5 values"}


class Results:
    """Figures by where they stand."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._by_place = {(one.family, one.curve, one.x): one for one in figures}

    def at(self, family: str, curve: str, x: float) -> Figure:
        """One point.

        Raises:
            KeyError: it was not measured.
        """
        return self._by_place[family, curve, x]

    def speed(self, family: str, curve: str, x: float) -> float:
        """The best of the repeats, million events per second: what else the machine does only takes away."""
        return max(self.at(family, curve, x).m_events_per_s)

    def xs(self, family: str) -> list[float]:
        """What was varied.

        Raises:
            KeyError: nothing of the family was measured.
        """
        found = sorted({x for name, _, x in self._by_place if name == family})
        if not found:
            raise KeyError(family)
        return found

    def ratio(self, family: str, one: str, other: str, x: float) -> float:
        """How many times as fast one is as the other."""
        return self.speed(family, one, x) / self.speed(family, other, x)

    def least_ratio(self, family: str, one: str, other: str, x: float) -> float:
        """The same by the slowest repeat of the one and the fastest of the other."""
        return min(self.at(family, one, x).m_events_per_s) / self.speed(family, other, x)

    def told(self, family: str, curve: str) -> str:
        """The line of a curve: the best of the repeats, and their range where it is wider than a tenth."""
        words = []
        for x in self.xs(family):
            if (family, curve, x) in self._by_place:
                values = self.at(family, curve, x).m_events_per_s
                wide = max(values) > 1.1 * min(values)
                words.append(f"{max(values):.3g}" + (f" ({min(values):.3g}–)" if wide else "") + f" at {x:g}")
        return f"{curve}: " + ", ".join(words)


def verdicts_of(figures: Sequence[Figure]) -> list[Verdict]:
    """On all claims whose figures are there."""
    results, found = Results(figures), []
    rules: list[Callable[[Results], Verdict]] = [
        _basic,
        _close,
        _windows,
        _must,
        _windows_pushed,
        _simple,
        _negation,
        _lengths,
        _joins,
        _second_test,
    ]
    rules += [_rule(name) for name in SECOND for _rule in (_dynamic, _multi, _beyond)] + [_beside_the_papers_event("second-of-5")]
    for rule in rules:
        try:
            found.append(rule(results))
        except KeyError:
            continue
    return found


def _basic(results: Results) -> Verdict:
    ratios = [results.ratio("basic", "AIS", "Basic", x) for x in results.xs("basic")]
    text = "AIS outperforms Basic by a large factor at small domains, 18 times at 100 values"
    numbers = f"{ratios[0]:.1f} times; M events/s {results.told('basic', 'AIS')}; {results.told('basic', 'Basic')}"
    return verdict("figure 8", text, numbers, figures=ratios[0] >= 18, shape=ratios[0] >= 2 * ratios[-1] and ratios[0] >= WIDE)


def _close(results: Results) -> Verdict:
    ratio = results.ratio("basic", "AIS", "Basic", 10_000)
    rising = all(
        results.speed("basic", curve, b) > 0.9 * results.speed("basic", curve, a)
        for curve in ("AIS", "Basic")
        for a, b in pairwise(results.xs("basic"))
    )
    text = "both become faster with more values, and are close at 10,000"
    return verdict("figure 8, right end", text, f"AIS {ratio:.2f} times as fast", figures=rising and ratio <= ALIKE, shape=rising)


def _windows(results: Results) -> Verdict:
    falls = {
        curve: results.speed("basic-window", curve, 10_000) / results.speed("basic-window", curve, 100_000) for curve in ("AIS", "Basic")
    }
    numbers = "from 10,000 to 100,000 events: " + ", ".join(f"{curve} {fall:.2f} times slower" for curve, fall in falls.items())
    text = "with larger windows Basic loses throughput much faster than AIS"
    return verdict("figure 9", text, numbers, figures=falls["Basic"] > WIDE * falls["AIS"], shape=falls["Basic"] > falls["AIS"])


def _must(results: Results) -> Verdict:
    one, other = results.at("domain-size", "PAIS", 1_000), results.at("domain-size", "selection", 1_000)
    ratio = results.ratio("domain-size", "PAIS", "selection", 1_000)
    numbers = f"at 1,000 values {other.sequences / other.events:,.0f} sequences per event without, {one.sequences / one.events:.3g} with; {ratio:,.0f} times as fast"
    text = "pushing one equivalence test down is a must: without, hundreds of millions of intermediate results"
    return verdict("5.2, text", text, numbers, figures=10_000 * other.sequences / other.events > 1e8 and ratio > 100, shape=ratio > 10)


def _dynamic(family: str) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        ratios = {
            x: min(results.ratio(family, "Dynamic Filtering", other, x) for other in ("Multi-PAIS", "Selection"))
            for x in results.xs(family)
        }
        small = [ratio for x, ratio in ratios.items() if x <= 500]
        numbers = "against the better of the others " + ", ".join(f"{ratio:.2f} at {x:g}" for x, ratio in ratios.items())
        text = "Dynamic Filtering outperforms Multi-PAIS and Selection by a wide margin up to 500 values of the first attribute"
        return verdict(
            f"figure {SECOND[family]}", text, numbers, figures=min(small) >= WIDE, shape=small[0] >= WIDE and min(small) >= 1 / ALIKE
        )

    return rule


def _multi(family: str) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        small = [x for x in results.xs(family) if x <= 100]
        ratios = [results.ratio(family, "Multi-PAIS", "Selection", x) for x in small]
        shares = {
            name: [getattr(results.at(family, "Multi-PAIS", x), name) / getattr(results.at(family, "Selection", x), name) for x in small]
            for name in ("begun", "sequences")
        }
        fewer = max(shares["begun"]) <= 1 and all(
            results.at(family, "Dynamic Filtering", x).sequences < results.at(family, "Multi-PAIS", x).sequences for x in small
        )
        numbers = "speed " + ", ".join(f"{ratio:.2f} times Selection's at {x:g}" for x, ratio in zip(small, ratios, strict=True))
        whole = [results.ratio(family, "Multi-PAIS, whole intersections", "Selection", x) for x in small]
        numbers += "; where stacks are intersected to their end instead of to the first instance in common " + ", ".join(
            f"{one:.2f}" for one in whole
        )
        numbers += "; constructions begun " + ", ".join(f"{share:.2f}" for share in shares["begun"])
        numbers += ", sequences constructed " + ", ".join(f"{share:.2f}" for share in shares["sequences"]) + " of Selection's"
        text = "Multi-PAIS is even slower than Selection at small domains: it begins fewer constructions, and constructs more than Dynamic Filtering"
        return verdict(f"figure {SECOND[family]}", text, numbers, figures=max(ratios) < 1 and fewer, shape=min(ratios) < 1 and fewer)

    return rule


def _beyond(family: str) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        curves, xs = ("Dynamic Filtering", "Multi-PAIS", "Selection"), [x for x in results.xs(family) if x > 500]
        widths = [max(speeds) / min(speeds) for speeds in ([results.speed(family, curve, x) for curve in curves] for x in xs)]
        small = [results.speed(family, curve, results.xs(family)[0]) for curve in curves]
        numbers = "fastest over slowest " + ", ".join(f"{width:.2f} at {x:g}" for x, width in zip(xs, widths, strict=True))
        times = {curve: [1000 / results.speed(family, curve, x) for x in xs] for curve in curves}
        numbers += "; ns per event " + ", ".join(f"{curve} " + " and ".join(f"{one:.1f}" for one in line) for curve, line in times.items())
        text = "beyond 500 values the three are alike"
        return verdict(
            f"figure {SECOND[family]}", text, numbers, figures=max(widths) <= ALIKE, shape=max(widths) < WIDE < max(small) / min(small)
        )

    return rule


def _beside_the_papers_event(family: str) -> Callable[[Results], Verdict]:
    """Why not: what the plans differ by, beside what an event cost in the paper's system."""

    def rule(results: Results) -> Verdict:
        curves, xs = ("Dynamic Filtering", "Multi-PAIS", "Selection"), [x for x in results.xs(family) if x > 500]
        ns = [[PAPERS_NS + 1000 / results.speed(family, curve, x) for curve in curves] for x in xs]
        widths = [max(one) / min(one) for one in ns]
        numbers = "fastest over slowest " + ", ".join(f"{width:.4f} at {x:g}" for x, width in zip(xs, widths, strict=True))
        text = f"beyond 500 values the three are alike (reckoned: if every event took {PAPERS_NS / 1000:g} us besides, as in the paper)"
        return verdict(f"figure {SECOND[family]}", text, numbers, figures=max(widths) <= ALIKE, shape=max(widths) < WIDE)

    return rule


def _windows_pushed(results: Results) -> Verdict:
    x, curves = max(results.xs("window-push-down")), ("in neither", "in the scan", "in construction", "in both")
    made = {curve: results.at("window-push-down", curve, x).sequences for curve in curves}
    speeds = {curve: results.speed("window-push-down", curve, x) for curve in curves}
    numbers = f"sequences and M events/s at {x:,.0f}: " + ", ".join(f"{curve} {made[curve]:,}, {speeds[curve]:.3g}" for curve in curves)
    text = "pushing windows down to scan and construction reduces intermediate results"
    fewer = made["in both"] <= made["in construction"] < made["in the scan"] < made["in neither"]
    return verdict("windows, text", text, numbers, figures=fewer and speeds["in both"] > speeds["in neither"], shape=fewer)


def _simple(results: Results) -> Verdict:
    ratios = {x: results.ratio("simple", "in the scan", "on complete sequences", x) for x in results.xs("simple")}
    numbers = "in the scan over on complete sequences: " + ", ".join(f"{ratio:.2f} times at {x:g}" for x, ratio in ratios.items())
    text = "simple predicates belong into the scan"
    least = min(ratios)
    return verdict("4.2, text", text, numbers, figures=ratios[least] > WIDE and min(ratios.values()) > 0.9, shape=ratios[least] > 1)


def _negation(results: Results) -> Verdict:
    costs = {x: results.ratio("negation", "no negation", "behind construction", x) for x in results.xs("negation")}
    pushed = results.ratio("negation", "in construction", "behind construction", min(costs))
    numbers = "time with a negation behind construction over none " + ", ".join(f"{cost:.2f} at {x:g}" for x, cost in costs.items())
    numbers += f"; pushed into construction {pushed:.2f} times as fast as behind at {min(costs):g}"
    text = "negation costs little when intermediate results are few, and more otherwise; it might be pushed down"
    return verdict(
        "negation, text", text, numbers, figures=costs[min(costs)] > WIDE and costs[1_000] < ALIKE, shape=costs[min(costs)] > costs[1_000]
    )


def _lengths(results: Results) -> Verdict:
    shares = {
        curve: [results.speed("length", curve, x) / results.speed("length", curve, 2) for x in results.xs("length")]
        for curve in ("SASE (PAIS)", "join", "join in order", f"{PRODUCT}: PAIS")
    }
    numbers = "; ".join(f"{curve} " + ", ".join(f"{share:.2g}" for share in line) for curve, line in shares.items()) + " of L = 2"
    text = "with longer sequences joins fall sharply from L = 2 to 3 and below 0.01 from L = 5 on, SASE gently, to 0.5 at L = 6"
    sase, join = shares["SASE (PAIS)"], shares["join"]
    return verdict(
        "figure 11", text, numbers, figures=sase[4] >= 0.45 and max(join[3:]) < 0.01, shape=sase[4] > 5 * join[4] and join[1] < sase[1]
    )


def _joins(results: Results) -> Verdict:
    curves = ("SASE, one test", "join, one test", "join in order, one test", "SASE, two tests", "join, two tests")
    falls = {curve: results.speed("join-domain-size", curve, 10_000) / results.speed("join-domain-size", curve, 10) for curve in curves}
    numbers = "throughput at 10,000 values over that at 10: " + ", ".join(f"{curve} {fall:.3g}" for curve, fall in falls.items())
    text = "towards few values joins lose throughput much faster than SASE"
    ratio = falls["join, one test"] / falls["SASE, one test"]
    return verdict("figure 12", text, numbers, figures=ratio > WIDE, shape=ratio > 1)


def _second_test(results: Results) -> Verdict:
    x = min(results.xs("join-domain-size"))
    gains = {name: results.ratio("join-domain-size", f"{name}, two tests", f"{name}, one test", x) for name in ("SASE", "join")}
    numbers = f"times as fast with it at {x:g} values: " + ", ".join(
        f"{name} {gain:.1f} ({results.least_ratio('join-domain-size', f'{name}, two tests', f'{name}, one test', x):.1f}–)"
        for name, gain in gains.items()
    )
    text = "a second test helps SASE much, joins little"
    helps = gains["SASE"] > WIDE and gains["SASE"] > gains["join"]
    return verdict("figure 12, second test", text, numbers, figures=helps and gains["join"] <= WIDE, shape=helps)
