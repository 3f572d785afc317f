"""What an application's ``/metrics`` says, read again: values by name and labels, and what a histogram says of a share of its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at all metrics.

    Attributes:
        samples: by the sample's name its values, by labels.
    """

    samples: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> Scrape:
        """The look that a text is.

        Raises:
            ValueError: it is none.

        >>> float(Scrape.of('a_total{q="x"} 2').total("a_total", q="x"))
        2.0
        """
        found: dict[str, dict[Labels, float]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        return Scrape(found)

    def matching(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """The samples of a name that have these labels, with all of theirs."""
        wanted = frozenset(labels.items())
        for own, value in self.samples.get(name, {}).items():
            if wanted <= own:
                yield dict(own), value

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples with these labels; 0 where there are none."""
        return sum(value for _, value in self.matching(name, **labels))

    def value(self, name: str, **labels: str) -> float | None:
        """The one sample with these labels; None where there is none."""
        return next((value for _, value in self.matching(name, **labels)), None)

    def buckets(self, name: str, **labels: str) -> dict[float, float]:
        """Of a histogram, by upper bound how many values were not above it."""
        return dict(sorted((float(own["le"]), value) for own, value in self.matching(f"{name}_bucket", **labels)))


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """The bound below which this share of a histogram's values lies for certain; None without values.

    >>> quantile({0.1: 90, 0.5: 99, float("inf"): 100}, 0.99), quantile({}, 0.5)
    (0.5, None)
    """
    count = max(buckets.values(), default=0)
    return next((bound for bound, below in buckets.items() if below >= share * count), None) if count else None


def between(before: Mapping[float, float], after: Mapping[float, float]) -> dict[float, float]:
    """What came into a histogram between two looks; all of the later one where it began anew."""
    if any(after.get(bound, 0) < count for bound, count in before.items()):
        return dict(after)
    return {bound: count - before.get(bound, 0) for bound, count in after.items()}
