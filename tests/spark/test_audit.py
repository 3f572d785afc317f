"""Verdicts of the application on the audit topic, against what `cep replay` finds in the same topics without shedding."""

import io
import json
import tempfile
from collections import Counter

import fastavro
import pytest
import yaml

from app.config.settings import load_settings
from app.control.law.watchdog import Watchdog
from app.local.generators import generate
from tests.spark.recorded import KnownSchemas, run_recorded, write_parquet
from tests.spark.test_recorded_topics import START_MS, build_world

SHED = """
name: hasty
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > 1.002 * a.price"
strategy: skip-till-next-match
within: 2 s
return: {symbol: b.symbol, price: b.price}
shedding: {shedder: random, latency_bound: 1 s}
"""
WHOLE = """
name: whole
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > 1.01 * a.price"
within: 1 s
return: {symbol: b.symbol, price: b.price}
"""


class Subjects(KnownSchemas):
    """Knows what it was taught, as consumers ask for it."""

    def __init__(self) -> None:
        super().__init__()
        self.taught = {}

    def register(self, subject: str, text: str) -> int:
        number = super().register(subject, text)
        self.taught[number] = fastavro.parse_schema(json.loads(text))
        return number

    def read(self, value: bytes) -> tuple[str, dict]:
        """A record in the wire format: its schema's name, and what is in it."""
        schema = self.taught[int.from_bytes(value[1:5], "big")]
        return schema["name"], fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    for name, text in (("hasty", SHED), ("whole", WHOLE)):
        (folder / f"{name}.yaml").write_text(text)
    quotes = generate("stocks", 6000, seed=4, start_ms=START_MS, rate_per_s=200.0).batches
    folder, records, expected = build_world(folder, {"stocks": ("symbol", quotes)}, (str(folder / "hasty"), str(folder / "whole")))
    write_parquet(folder / "topics", records, 6)
    write_parquet(folder / "in-pieces", records, 24)
    return folder, {id_ for id_, one in expected.items() if one["query"] == "hasty"}


def run(spark, folder, queries, sample=0.0, topics="topics"):
    """Identities of what was found, verdicts by identity, estimates, and the control plane."""
    settings = yaml.safe_load((folder / "settings.yaml").read_text())
    settings["queries"]["paths"] = [str(folder / f"{query}.yaml") for query in queries]
    settings |= {"checkpoint": {"path": tempfile.mkdtemp(dir=folder)}, "http": {"host": "127.0.0.1", "port": 0}}
    settings |= {"audit": {"sample": sample}}
    (folder / "run.yaml").write_text(yaml.safe_dump(settings))
    found, verdicts, estimates, planes, subjects = set(), {}, [], [], Subjects()

    def take(_, table) -> None:
        for row in table.to_pylist():
            headers = {header["key"]: header["value"] for header in row["headers"] or ()}
            if row["topic"] == "cep.hasty":
                found.add(headers["ce_id"].decode())
            elif row["topic"] == "cep.audit" and b"hasty" in row["key"]:
                kind, read = subjects.read(row["value"])
                if kind == "cep.audit.Verdict":
                    verdicts[read["composite_event"]] = read
                elif kind == "cep.audit.Estimate":
                    estimates.append(read)

    run_recorded(
        spark,
        load_settings(folder / "run.yaml", {}),
        str(folder / topics),
        subjects,
        take,
        before=lambda at: planes.append(at.plane),
    )
    return found, verdicts, estimates, planes[0]


@pytest.fixture
def shedding(monkeypatch):
    monkeypatch.setattr(Watchdog, "ratios", property(lambda _: {"hasty": 0.6}))


def test_every_false_positive_gets_its_verdict_and_nothing_true_is_called_false(spark, world, shedding):
    folder, true = world
    found, verdicts, _, plane = run(spark, folder, ["hasty", "whole"])
    kinds = Counter(verdict["verdict"] for verdict in verdicts.values())
    assert found - true, "shedding made it find what is not so"
    assert verdicts.keys() <= found
    assert {id_ for id_, one in verdicts.items() if one["verdict"] == "FALSE_POSITIVE"} == found - true
    assert kinds["UNVERIFIABLE"] == 0
    assert all(one["refuted_by"]["topic"] == "stocks" for one in verdicts.values() if one["verdict"] == "FALSE_POSITIVE")
    for kind in ("confirmed", "false_positive", "unverifiable"):
        assert plane.metrics.value("cep_audit_verdicts_total", query="hasty", verdict=kind) == kinds[kind.upper()]


def interval(plane, name):
    return [plane.metrics.value(f"cep_shed_{name}_estimate_ratio", query="hasty", bound=bound) for bound in ("lower", "upper")]


def test_where_all_queries_of_a_stream_shed_at_random_their_events_are_judged_and_sampled_as_well(spark, world, shedding):
    folder, true = world
    found, verdicts, _, plane = run(spark, folder, ["hasty"], sample=0.3)
    false = found - true
    assert false
    assert {id_ for id_, one in verdicts.items() if one["verdict"] == "FALSE_POSITIVE"} == false
    assert "UNVERIFIABLE" not in {one["verdict"] for one in verdicts.values()}
    assert None not in interval(plane, "recall")


def test_the_live_estimates_are_right_about_what_shedding_costs(spark, world, shedding):
    """Many batches: what the sample would have found is looked for between them, for some milliseconds each, and a held-up machine gets little done in those."""
    folder, true = world
    found, _, estimates, plane = run(spark, folder, ["hasty", "whole"], sample=0.5, topics="in-pieces")
    lower, upper = interval(plane, "recall")
    assert lower <= len(found & true) / len(true) <= upper
    assert 0 < lower < upper < 0.9, "wide, since a few turns of one symbol have most of the composite events"
    lower, upper = interval(plane, "precision")
    assert lower == pytest.approx(upper) == pytest.approx(len(found & true) / len(found))
    assert estimates[0]["query"] == "hasty", "told on the audit topic as well, every minute"
    assert estimates[0]["precision"]["lower"] <= estimates[0]["precision"]["value"] <= estimates[0]["precision"]["upper"]
    (told,) = [one for one in plane.queries() if one["query"] == "hasty"]
    assert told["recall"][0] <= told["recall"][1] <= told["recall"][2]
    assert "recall" not in next(one for one in plane.queries() if one["query"] == "whole")
