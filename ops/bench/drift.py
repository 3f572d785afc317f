"""Drift in the running application: types change their shares at half time, and how soon recall is back without a restart.

    python -m ops.bench.drift [--rate N] [--seconds N] [--seed N] [--json FILE] [--plot FILE]

Real broker, registry, Spark. Letters A, B, C at shares of 60, 30, 10 %, from half time on of 10, 30, 60 %; the query wants one of each, of one key, with values that grow by 3 at least; seven of ten candidates are shed all the time (as many
indeed, whatever the model's own scale says: what is judged is whom it keeps). The application learns and changes the model of `gspice` by itself (decision 0040). The same topic is then read three times more: without shedding, which says what there was to find, with a model that was freshly trained
on the end of the drifted half (`cep train`), and with one that was trained before the drift and kept. Recall by identity, per five seconds of the input.

``back_after_s`` is how long after the drift the application was behind the freshly trained model by more than three points, on the mean of twenty seconds; ``behind_fresh`` the recall of that model less the application's from then on (from the drift on where it never came back: then ``back_after_s`` is null).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from math import exp
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import yaml
from matplotlib import pyplot as plt
from numpy.typing import NDArray

from app.bucket.recording import rows_between
from app.config.settings import Settings, load_settings
from app.control.law.query_cost import QueryObservation
from app.control.law.watchdog import Watchdog
from app.control.law.watched import BatchObservation
from app.delivery.security import client_options
from app.events.batch import Column, Dictionary, EventBatch
from app.events.registry import Registry, RegistrySettings
from app.events.types import Kind
from app.local.application import PROGRAM, answer_of, start_application
from app.local.embedded import Embedded, embedded_services
from app.local.generators.json_lines import json_lines
from app.local.outlets import outlet_of
from app.local.ports import free_ports
from app.local.sending import Sender, at_rate
from app.observe.scrape import Scrape
from ops.bench.overload.runs import audits_of, composites_of
from ops.bench.overload.workloads import Workload
from ops.bench.pipeline import ROOT, apply_topics

KINDS, KEYS = ("A", "B", "C"), 4
BEFORE, AFTER = (0.6, 0.3, 0.1), (0.1, 0.3, 0.6)
"""Shares of the kinds."""
RATIO, SHEDDER = 0.7, "gspice"
FIRST_MS = 1_780_000_000_000
QUERY = """
name: steps
from: letters
event: SEQ(A a, B b, C c)
where: "[key] AND b.v >= a.v + 3 AND c.v >= b.v + 3"
within: 60 ms
return: {key: c.key}
"""
SCHEMA = {
    "type": "record",
    "name": "Letter",
    "fields": [
        {"name": "kind", "type": "string"},
        {"name": "key", "type": "string"},
        {"name": "v", "type": "long"},
        {"name": "time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
WORKLOAD = Workload("drift", "letters", {"steps": QUERY}, {"steps": 3_600_000})
SLOT_S, STRETCH = 5, 4
WITHIN = 0.03
LEARNED_S = 20
"""Of input, that a model is learned from."""
PIECE = 2_000
HELD = "import sys; from ops.bench.drift import hold; from app.cli.main import main; hold(); sys.argv[0] = 'app'; sys.exit(main())"
"""The command line, and a watchdog that is left out."""
FOLLOWED = 2_000
"""Candidates after which most of the difference between what was asked and done is made up for, whatever batches are."""
PER_BATCH = 4_000
"""Events at most: what was done is known after each."""


def hold() -> None:
    """In place of the watchdog's law: so much is asked that `RATIO` of the candidates go indeed. A model of another time drops another share than it is asked for, and who drops less finds more."""
    asked, observe = {"steps": RATIO}, Watchdog.observe

    def observed(self: Watchdog, seen: BatchObservation) -> None:
        one = seen.queries.get("steps", QueryObservation())
        if one.asked and one.candidates:
            share = 1 - exp(-one.candidates / FOLLOWED)
            asked["steps"] = min(0.99, max(0.01, asked["steps"] + share * (RATIO - one.shed / one.candidates)))
        observe(self, seen)

    Watchdog.observe = observed  # type: ignore[method-assign]
    Watchdog.ratios = property(lambda _: dict(asked))  # type: ignore[method-assign,assignment]


def letters(events: int, rate: float, seed: int) -> EventBatch:
    """So many events, of which the second half has the other shares; event time goes as they are sent."""
    chance = np.random.default_rng(seed)
    half = events // 2
    kinds = np.concatenate([chance.choice(3, half, p=BEFORE), chance.choice(3, events - half, p=AFTER)]).astype(np.int32)
    line = np.arange(events)
    columns = {
        "key": Column(
            Kind.STRING, chance.integers(0, KEYS, events).astype(np.int32), None, Dictionary.of([b"k%d" % k for k in range(KEYS)])
        ),
        "v": Column(Kind.INTEGER, chance.integers(1, 11, events)),
    }
    types = Column(Kind.STRING, kinds, None, Dictionary.of([kind.encode() for kind in KINDS]))
    return EventBatch(FIRST_MS + (1000 * line / rate).astype(np.int64), np.zeros_like(line), line, types, {"kind": types, **columns})


def in_pieces(batch: EventBatch) -> Iterator[EventBatch]:
    """As a sender takes them."""
    for first in range(0, len(batch), PIECE):
        yield rows_between(batch, first, min(first + PIECE, len(batch)))


@dataclass(frozen=True, slots=True)
class Place:
    """Where it happens.

    Attributes:
        learned: events that a model is learned from.
    """

    folder: Path
    services: Embedded
    learned: int

    def settings(self, label: str, *, sheds: bool, models: Path | None = None) -> Path:
        """The file of an application that reads the one topic from its beginning.

        Args:
            sheds: `RATIO` of the candidates.
            models: folder with a model that is kept; None: it learns by itself.
        """
        own = self.folder / label
        (own / "queries").mkdir(parents=True)
        (own / "queries" / "steps.yaml").write_text(QUERY + (f"shedding: {{shedder: {SHEDDER}, latency_bound: 1 h}}\n" if sheds else ""))
        (own / "letter.avsc").write_text(json.dumps(SCHEMA))
        plain: dict[str, Any] = {
            "kafka": {
                "bootstrap_servers": self.services.broker.bootstrap_servers,
                "starting_offsets": "earliest",
                "max_offsets_per_trigger": PER_BATCH,
            },
            "schema_registry": {"url": self.services.registry.url},
            "streams": {
                "letters": {"topics": ["letters"], "schemas": ["letter.avsc"], "type": "kind", "time": "time", "ordered_by": "key"},
            },
            "queries": {"paths": [str(own / "queries")], **({} if models is None else {"models": str(models)})},
            "topics": {"prefix": f"{label}-cep"},
            "checkpoint": {"path": str(own / "checkpoint")},
            "http": {"host": "127.0.0.1", "port": free_ports(1)[0]},
            "learning": {"enabled": sheds and models is None, "first": "5 s", "every": "5 s", "events": self.learned},
        }
        file = own / "settings.yaml"
        file.write_text(yaml.safe_dump(plain))
        return file


@dataclass(frozen=True, slots=True)
class Application:
    """One that runs, as people start it."""

    settings: Settings
    process: subprocess.Popen[bytes]
    log: Path

    def asked(self, what: str) -> str:
        """What it answers; nothing while it does not.

        Raises:
            RuntimeError: it has ended.
        """
        if self.process.poll() is not None:
            raise RuntimeError("the application ended:\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-20:]))
        status, text = answer_of(self.settings.http.port, f"/{what}", timeout_s=10)
        return text if status == HTTPStatus.OK else ""

    def total(self, metric: str) -> float:
        """Of a counter, whatever its labels are."""
        return Scrape.of(self.asked("metrics")).total(metric)

    @property
    def realised(self) -> float:
        """Share of its candidates that it has dropped."""
        return round(self.total("cep_events_shed_total") / max(1.0, self.total("cep_candidate_events_total")), 4)

    def wait_for(self, events: int, seconds: float = 300) -> None:
        """Until it has read so many, and a little longer: until what it found is told.

        Raises:
            TimeoutError: it takes too long.
        """
        deadline = time.monotonic() + seconds
        while (read := self.total("cep_events_consumed_total")) < events:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{read:.0f} of {events} events after {seconds} s")
            time.sleep(1)
        time.sleep(5)


@contextmanager
def running(file: Path, *, sheds: bool) -> Iterator[Application]:
    """The application, from when it is ready on; it is ended as Kubernetes ends it."""
    settings = load_settings(file, {})
    apply_topics(settings)
    process = start_application(file, log := file.parent / "log", program=("-c", HELD) if sheds else PROGRAM)
    application = Application(settings, process, log)
    try:
        while not application.asked("readyz"):
            time.sleep(0.5)
        yield application
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def live(place: Place, stream: EventBatch, rate: float) -> tuple[Settings, float, float]:
    """The application that learns, while events come; the clock when they began, ms, and what it has dropped of its candidates."""
    file = place.settings("live", sheds=True)
    with running(file, sheds=True) as application:
        settings = application.settings
        outlet = outlet_of("letters", settings.streams["letters"], Registry(RegistrySettings(settings.schema_registry.url)))
        with Sender(client_options(settings.kafka), outlet, at_rate(rate)) as sender:
            began_ms = 1000 * time.time()
            sender.send(in_pieces(stream))
        application.wait_for(len(stream))
        realised = application.realised
    return settings, began_ms, realised


def replayed(place: Place, label: str, events: int, models: Path | None = None) -> tuple[Settings, float]:
    """Another application reads the same topic: without shedding, or with a model that it keeps; and what it has dropped of its candidates."""
    sheds = models is not None
    with running(place.settings(label, sheds=sheds, models=models), sheds=sheds) as application:
        application.wait_for(events)
        return application.settings, application.realised


def trained(place: Place, name: str, batch: EventBatch) -> Path:
    """A folder with a model that is learned from these events, by the command that people use."""
    models, settings = place.folder / f"{name}-models", place.folder / "live" / "settings.yaml"
    models.mkdir()
    text, events = place.folder / "live" / "queries" / "steps.yaml", place.folder / f"{name}.jsonl"
    events.write_bytes(b"".join(json_lines(in_pieces(batch))))
    command = [
        "train",
        "--queries",
        text,
        "--events",
        events,
        "--config",
        settings,
        "--out",
        models / "steps.model",
        "--shedder",
        SHEDDER,
    ]
    subprocess.run([sys.executable, "-m", "app", *map(str, command)], check=True, cwd=ROOT)
    return models


@dataclass(frozen=True, slots=True)
class Recall:
    """Of runs over the same events.

    Attributes:
        truth: by identity, seconds of the input at which it was complete.
    """

    truth: dict[str, float]

    @staticmethod
    def of(settings: Settings) -> Recall:
        """What the run without shedding found."""
        return Recall({key: (one.time_ms - FIRST_MS) / 1000 for key, one in composites_of(settings, WORKLOAD)["steps"].items()})

    def by_slot(self, settings: Settings) -> NDArray[np.float64]:
        """float64 (slots,): of what was complete in `SLOT_S` seconds each."""
        found = composites_of(settings, WORKLOAD)["steps"].keys()
        at = (np.array(list(self.truth.values())) / SLOT_S).astype(np.int64)
        hit = np.array([key in found for key in self.truth])
        return np.bincount(at, hit) / np.maximum(1, np.bincount(at))

    def since(self, settings: Settings, begin_s: float) -> float:
        """Of what was complete after this time of the input."""
        found, due = composites_of(settings, WORKLOAD)["steps"].keys(), [key for key, at in self.truth.items() if at >= begin_s]
        return sum(key in found for key in due) / len(due)


def back_after_s(live: NDArray[np.float64], fresh: NDArray[np.float64], first: int) -> int | None:
    """See the module's text; None where it is behind at the end.

    Args:
        live, fresh: float64 (slots,), recall.
        first: slot after the drift.

    >>> back_after_s(np.array([0.9, 0.5, 0.9, 0.9, 0.9, 0.9, 0.9]), np.full(7, 0.9), 1), back_after_s(np.full(6, 0.9), np.full(6, 0.9), 1)
    (20, 0)
    """
    gaps = np.convolve(fresh - live, np.full(STRETCH, 1 / STRETCH), "valid")[first:]
    behind = np.flatnonzero(gaps > WITHIN)
    if not len(behind):
        return 0
    return None if behind[-1] == len(gaps) - 1 else (int(behind[-1]) + STRETCH) * SLOT_S


def drift(place: Place, events: int, rate: float, seed: int) -> dict[str, Any]:
    """All four runs, and what they say."""
    stream, half_s = letters(events, rate, seed), events / rate / 2
    settings, began_ms, realised = live(place, stream, rate)
    changes = [one for one in audits_of(settings).get("ModelChange", []) if one["query"] == "steps"]
    changed_s = [round(one["time"].timestamp() - began_ms / 1000, 1) for one in changes]
    learned = round(LEARNED_S * rate)
    parts = {"kept": rows_between(stream, events // 2 - learned, events // 2), "fresh": rows_between(stream, events - learned, events)}
    whole, _ = replayed(place, "whole", events)
    kept = {name: replayed(place, name, events, trained(place, name, part)) for name, part in parts.items()}
    others = {name: one for name, (one, _) in kept.items()}
    recall, runs = Recall.of(whole), {"live": settings, **others}
    by_slot = {name: recall.by_slot(one) for name, one in runs.items()}
    back_s = back_after_s(by_slot["live"], by_slot["fresh"], round(half_s / SLOT_S))
    since_s = half_s + (back_s or 0)
    after = {name: round(recall.since(one, since_s), 4) for name, one in runs.items()}
    return {
        "rate": rate,
        "seed": seed,
        "ratio": RATIO,
        "drift_s": half_s,
        "slot_s": SLOT_S,
        "learned_from": learned,
        "changes": [{"at_s": at, "shedder": one["shedder"], "why": one["why"]} for at, one in zip(changed_s, changes, strict=True)],
        "back_after_s": back_s,
        "composites_after": sum(at >= since_s for at in recall.truth.values()),
        "recall_after": after,
        "realised": {"live": realised, **{name: one for name, (_, one) in kept.items()}},
        "behind_fresh": round(after["fresh"] - after["live"], 4),
        "recall": {name: one.round(4).tolist() for name, one in by_slot.items()},
    }


def draw(figures: dict[str, Any], file: Path) -> None:
    """Recall over time."""
    mpl.use("Agg")
    canvas, axes = plt.subplots(figsize=(8, 4))
    for name, told in (("live", "learns by itself"), ("fresh", "trained on the drifted half"), ("kept", "trained before, kept")):
        values = figures["recall"][name]
        axes.plot((np.arange(len(values)) + 0.5) * figures["slot_s"], values, marker=".", label=told)
    axes.axvline(figures["drift_s"], color="gray", linestyle="--")
    for one in figures["changes"]:
        axes.axvline(one["at_s"], color="gray", linestyle=":")
    axes.set(xlabel="seconds of the input (dashed: the drift; dotted: a model comes into use)", ylabel="recall", ylim=(0, 1))
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    canvas.tight_layout()
    canvas.savefig(file, dpi=110)
    plt.close(canvas)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m ops.bench.drift", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=2_000, help="events per second")
    parser.add_argument("--seconds", type=float, default=160, help="of input; half of it is of other shares")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--plot", type=Path, default=Path(__file__).with_suffix(".png"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, embedded_services() as services:
        place = Place(Path(folder), services, round(LEARNED_S * chosen.rate))
        figures = drift(place, round(chosen.rate * chosen.seconds), chosen.rate, chosen.seed)
    chosen.json.write_text(json.dumps(figures, separators=(",", ":")) + "\n")
    draw(figures, chosen.plot)
    print(json.dumps({name: value for name, value in figures.items() if name != "recall"}, indent=1))


if __name__ == "__main__":
    main()
