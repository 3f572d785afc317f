"""Models in the application: read with the queries, carried in the deployment, asked by the ingress about what selection lets through."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from app.asc.selection import Selection
from app.bucket.bucket import Bucket
from app.bucket.hold import Progress
from app.bucket.ingress import IngressPlan
from app.cli.shedding.shed_queries import read_shed_queries
from app.cli.shedding.train import train
from app.config.settings import load_settings
from app.control.messages.directives import Directive, QueryShedding
from app.errors import ConfigurationError
from app.events.batch import take
from app.events.registry import Registry, RegistrySettings
from app.features.events import Features
from app.owners.chains import chains_of
from app.owners.deployment import FORMAT, deployment_from_json
from app.owners.models import restored
from app.pipeline.gate import QueryModel, ranking, shedding_gate
from app.pipeline.preparation import compile_queries, prepare, read_streams, without_models
from shedding.registry import METHODS

ROOT = Path(__file__).parents[2]
KINDS = ("ShelfReading", "CounterReading", "ExitReading")
QUERY = """
name: theft
event: SEQ(ShelfReading s, !(CounterReading c), ExitReading e)
where: "[tag_id] AND s.shelf_id <= 5"
within: 60 s
return: {tag_id: e.tag_id}
shedding: {shedder: gspice, pane: 7 events, latency_bound: 1 s}
"""
EVENTS = 6000


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Settings, a query and a recording in which three quarters of the shelf readings are of no interest to it."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "theft.yaml").write_text(QUERY)
    rng = np.random.default_rng(5)
    lines = []
    for k, kind in enumerate(rng.choice(KINDS, EVENTS, p=[0.6, 0.2, 0.2]).tolist()):
        own = {"ShelfReading": {"shelf_id": int(rng.integers(1, 21))}, "CounterReading": {"counter_id": 1}, "ExitReading": {"exit_id": 1}}[
            kind
        ]
        lines.append({"type": kind, "time": 1_780_000_000_000 + 20 * k, "tag_id": f"T{rng.integers(0, 40)}", "store_id": 1, **own})
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    retail = {"topics": ["retail"], "schemas": [str(ROOT / "schemas" / f"{name}.avsc") for name in KINDS], "time": "time"}
    settings = {"streams": {"retail": retail}, "queries": {"paths": ["theft.yaml"], "models": "models"}}
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
    (folder / "models").mkdir()
    learn(folder, folder / "models" / "theft.model")
    return folder


def learn(folder, file, shedder=None, events=None):
    train(
        queries=[folder / "theft.yaml"],
        events=events or folder / "events.jsonl",
        out=file,
        config=folder / "settings.yaml",
        shedder=shedder,
    )


def deployed(folder, models):
    """The compiled queries and the deployment, with models of this folder."""
    settings = load_settings(folder / "settings.yaml", {})
    settings = settings.model_copy(update={"queries": settings.queries.model_copy(update={"models": models})})
    registry = Registry(RegistrySettings("mock://models"))
    streams = read_streams(settings, registry)
    compiled = compile_queries(settings, streams)
    return compiled, prepare(settings, compiled, streams, registry)


def test_a_model_learned_with_the_settings_fits_the_query_that_is_deployed(world):
    compiled, deployment = deployed(world, world / "models")
    assert without_models(compiled, deployment) == []
    (stored,) = deployment.models
    model = restored(stored)
    assert (model.manifest.method, model.manifest.query) == ("gspice", deployment.catalog.plans[0].fingerprint)
    assert model.pane.events == 7, "as the query says"
    assert deployment_from_json(deployment.to_json(), FORMAT, lambda digest: stored.content) == deployment
    assert "content" not in repr(deployment)


def test_another_model_is_another_deployment(world, tmp_path):
    lines = (world / "events.jsonl").read_text().splitlines(keepends=True)
    (half := tmp_path / "half.jsonl").write_text("".join(lines[: len(lines) // 2]))
    learn(world, tmp_path / "theft.model")
    same, other = (deployed(world, folder)[1].models[0].digest for folder in (world / "models", tmp_path))
    assert same == other, "the same recording gives the same model"
    learn(world, tmp_path / "theft.model", events=half)
    first, second = (deployed(world, folder)[1] for folder in (world / "models", tmp_path))
    assert first.models[0].digest != second.models[0].digest
    assert first.fingerprint != second.fingerprint
    (tmp_path / "theft.model").unlink()
    assert len({first.fingerprint, second.fingerprint, deployed(world, tmp_path)[1].fingerprint}) == 3


@pytest.mark.parametrize("models", ["nowhere", None])
def test_a_query_without_a_model_sheds_at_random_until_there_is_one(world, models):
    compiled, deployment = deployed(world, models and world / models)
    assert without_models(compiled, deployment) == [("theft", "gspice")]
    assert deployment.catalog.plans[0].shedding.shedder == "random"
    assert deployment.catalog.plans[0].shedding.latency_bound_ms == 1000
    assert deployment.models == (None,)


def test_models_that_do_not_fit_are_told_with_the_query(world, tmp_path):
    def told(content: bytes) -> str:
        (tmp_path / "theft.model").write_bytes(content)
        with pytest.raises(ConfigurationError) as caught:
            deployed(world, tmp_path)
        return str(caught.value)

    good = (world / "models" / "theft.model").read_bytes()
    assert "theft.yaml:7:1: " in told(b"PK damaged")
    assert "the file is damaged" in told(b"PK damaged")
    assert "hint: models are written by training" in told(b"no model")
    learn(world, tmp_path / "theft.model", shedder="bl")
    assert "a model of bl" in told((tmp_path / "theft.model").read_bytes())
    (world / "theft.yaml").write_text(QUERY.replace("60 s", "61 s"))
    try:
        assert "learned for another query, or for another version of it" in told(good)
    finally:
        (world / "theft.yaml").write_text(QUERY)


@pytest.mark.parametrize("ratio", [0.2, 0.5, 0.8])
def test_the_ingress_drops_the_share_of_candidates_that_it_is_asked_for_whatever_the_order_of_rows(world, ratio):
    _, deployment = deployed(world, world / "models")
    catalog = deployment.catalog
    plan, model = catalog.plans[0], restored(deployment.models[0])
    batch = read_shed_queries([world / "theft.yaml"], world / "events.jsonl", world / "settings.yaml", None)[0].batch
    selection = Selection(catalog, None)
    directive = Directive(3, shedding={"theft": QueryShedding(ratio, "gspice")})
    gate = shedding_gate(catalog, selection, directive, lambda query: QueryModel(model, Features.of(catalog.plans[query])))
    whole = selection.select(batch)
    kept = gate(batch, whole)
    assert len(kept.relevant) / len(whole.relevant) == pytest.approx(1 - ratio, abs=0.05)
    # the same decisions as of the library, which is given the whole stream in order
    asked = model.manifest.ratio_for(ratio)
    assert asked > ratio, "what is of no interest would have gone first"
    stays = model.gate(asked).keep(Features.of(plan).judged(batch))
    assert kept.relevant.tolist() == [row for row in whole.relevant.tolist() if stays[row]]
    shuffled = np.random.default_rng(1).permutation(len(batch))
    mixed = take(batch, shuffled)
    again = gate(mixed, selection.select(mixed))
    assert sorted(shuffled[again.relevant].tolist()) == kept.relevant.tolist()


def test_events_of_a_query_whose_shedder_is_of_partial_matches_go_at_random_when_that_is_not_enough(world):
    _, deployment = deployed(world, world / "models")
    catalog, selection = deployment.catalog, Selection(deployment.catalog, None)
    batch = read_shed_queries([world / "theft.yaml"], world / "events.jsonl", world / "settings.yaml", None)[0].batch
    whole = selection.select(batch)

    def kept(orders):
        gate = shedding_gate(catalog, selection, Directive(3, seed=5, shedding={"theft": orders}))
        return None if gate is None else gate(batch, whole).relevant.tolist()

    assert kept(QueryShedding(0.99, "pspice", "matching")) is None
    some = kept(QueryShedding(0.99, "pspice", "matching", events=0.4))
    assert len(some) / len(whole.relevant) == pytest.approx(0.6, abs=0.05)
    assert some == kept(QueryShedding(0.4, "random"))


@pytest.mark.parametrize("shedder", ["gspice", "gspice-tree", "espice", "bl", "random"])
def test_what_is_shed_does_not_depend_on_which_task_got_which_topic_partitions(world, tmp_path, shedder):
    for name in ("settings.yaml", "events.jsonl"):
        (tmp_path / name).write_text((world / name).read_text())
    (tmp_path / "theft.yaml").write_text(QUERY.replace("gspice", shedder))
    if METHODS[shedder].learns:
        learn(tmp_path, tmp_path / "theft.model")
    _, deployment = deployed(tmp_path, tmp_path)
    catalog = deployment.catalog
    batch = read_shed_queries([tmp_path / "theft.yaml"], tmp_path / "events.jsonl", tmp_path / "settings.yaml", None)[0].batch
    source = np.random.default_rng(2).integers(0, 4, len(batch))
    batch = replace(batch, source=source, offset=np.arange(len(batch)))
    learned = [
        None if stored is None else QueryModel(restored(stored), Features.of(plan))
        for stored, plan in zip(deployment.models, catalog.plans, strict=True)
    ]
    directive = Directive(3, seed=9, shedding={"theft": QueryShedding(0.6, shedder)})
    selection = Selection(catalog, None)
    gate = shedding_gate(catalog, selection, directive, lambda query: learned[query])

    def kept(tasks):
        found = set()
        for partitions in tasks:
            rows = np.flatnonzero(np.isin(source, partitions))
            part = take(batch, rows)
            found |= set(rows[gate(part, selection.select(part)).relevant].tolist())
        return found

    whole = kept([[0, 1, 2, 3]])
    assert 0.2 < len(whole) / len(selection.select(batch).relevant) < 0.55
    assert kept([[0, 1], [2, 3]]) == whole
    assert kept([[3], [0, 2], [1]]) == whole


WINDOWED = """
name: theft
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
window: {size: 20 s, slide: 10 s}
return: {tag_id: e.tag_id}
shedding: {shedder: SHEDDER, latency_bound: 1 s}
"""


CHAINED = """
name: theft
event: SEQ(ShelfReading s, ExitReading e)
where: "s.tag_id = e.tag_id"
within: 60 s
return: {tag_id: e.tag_id}
shedding: {shedder: prefix, latency_bound: 1 s}
"""


@pytest.mark.parametrize("shedder", ["espice", "e-bl", "bl", "gspice-tree"])
def test_what_drops_from_single_windows_drops_whole_events_where_all_windows_agree(world, tmp_path, shedder):
    for name in ("settings.yaml", "events.jsonl"):
        (tmp_path / name).write_text((world / name).read_text())
    (tmp_path / "theft.yaml").write_text(WINDOWED.replace("SHEDDER", shedder))
    learn(tmp_path, tmp_path / "theft.model")
    _, deployment = deployed(tmp_path, tmp_path)
    catalog, model = deployment.catalog, restored(deployment.models[0])
    batch = read_shed_queries([tmp_path / "theft.yaml"], tmp_path / "events.jsonl", tmp_path / "settings.yaml", None)[0].batch
    selection = Selection(catalog, None)
    whole = selection.select(batch)
    dropped = []
    for ratio in (0.2, 0.5, 0.8):
        directive = Directive(3, shedding={"theft": QueryShedding(ratio, shedder)})
        gate = shedding_gate(catalog, selection, directive, lambda query: QueryModel(model, Features.of(catalog.plans[query])))
        dropped.append(1 - len(gate(batch, whole).relevant) / len(whole.relevant))
    assert dropped == pytest.approx([0.2, 0.5, 0.8], abs=0.06)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (WINDOWED.replace("20 s", "200 events").replace("10 s", "100 events"), "in events, which no task can count"),
        (WINDOWED.replace("window: {size: 20 s, slide: 10 s}\n", ""), "this query has none"),
        (CHAINED.replace("within: 60 s", "within: 60 events"), "it goes by windows of time"),
        (WINDOWED.replace("SHEDDER", "hspice"), "windows of their own, with `within`"),
        (CHAINED.replace("prefix", "hspice") + "strategy: skip-till-next-match\n", "this query could find what is not so"),
        (
            CHAINED.replace("prefix", "hspice").replace("ExitReading e)", "OR(ExitReading e, ANY(ExitReading, CounterReading) c))"),
            "this query could find what is not so",
        ),
        (CHAINED.replace("prefix", "hspice") + "limits: {state_bytes: 100000}\n", "cannot be told apart"),
        (CHAINED.replace("SEQ(ShelfReading s, ExitReading e)", "AND(ShelfReading s, ExitReading e)"), "one sequence with a window"),
    ],
)
def test_shedders_that_the_application_cannot_run_are_told_before_it_starts(world, tmp_path, text, why):
    (tmp_path / "settings.yaml").write_text((world / "settings.yaml").read_text())
    (tmp_path / "theft.yaml").write_text(text.replace("SHEDDER", "espice"))
    with pytest.raises(ConfigurationError) as caught:
        deployed(tmp_path, tmp_path)
    assert why in str(caught.value)


def test_ratios_of_candidates_follow_from_what_was_measured(world):
    model = restored(deployed(world, world / "models")[1].models[0])
    shares = model.manifest.candidates
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert list(shares) == sorted(shares)
    assert shares[len(shares) // 4] < 0.125, "when a quarter of the stream is gone, less than half as many of the candidates are"


@pytest.mark.parametrize("ratio", [0.3, 0.6, 0.97])
def test_what_sheds_in_the_bucket_drops_there_what_the_library_drops_of_the_whole_stream(world, tmp_path, ratio):
    for name in ("settings.yaml", "events.jsonl"):
        (tmp_path / name).write_text((world / name).read_text())
    (tmp_path / "theft.yaml").write_text(QUERY.replace("gspice, pane: 7 events", "prefix"))
    learn(tmp_path, tmp_path / "theft.model")
    _, deployment = deployed(tmp_path, tmp_path)
    catalog, model = replace(deployment.catalog, sample=0.0), restored(deployment.models[0])
    batch = read_shed_queries([tmp_path / "theft.yaml"], tmp_path / "events.jsonl", tmp_path / "settings.yaml", None)[0].batch
    directive = Directive(3, shedding={"theft": QueryShedding(ratio, "prefix", "bucket")})
    rules = deployment.streams[0].rules
    plan = IngressPlan(catalog, rules, 1)
    learned = {0: QueryModel(model, Features.of(catalog.plans[0]))}
    assert shedding_gate(catalog, plan.selection, directive, learned.__getitem__) is None, "nothing goes at the ingress"
    riders = ranking(catalog, plan.selection, directive, learned.__getitem__)
    bucket = Bucket(catalog, [rules], 0, chains_of=chains_of)
    threshold = model.gate(model.manifest.ratio_for(ratio)).threshold
    shed = 0
    for rows in np.array_split(np.arange(len(batch)), 5):
        ingested = plan.ingest(take(batch, rows), Progress(sources=frozenset({0})), riders=riders)
        output = bucket.advance([packed for _, packed in ingested.packed()], Progress(sources=frozenset({0})), thresholds={0: threshold})
        shed += sum(one.events for one in output.shed)
    output = bucket.advance([], Progress(sources=frozenset({0}), closing=True), thresholds={0: threshold})
    shed += sum(one.events for one in output.shed)
    own = Features.of(catalog.plans[0]).judged(batch)
    stays = model.gate(model.manifest.ratio_for(ratio)).keep(own)
    assert shed == int(np.count_nonzero(~stays & (own.items != 0)))
    assert shed / np.count_nonzero(own.items) == pytest.approx(ratio, abs=0.06)


def test_a_given_model_that_the_application_cannot_run_on_the_query_is_refused_where_the_query_names_no_shedder(world, tmp_path):
    for name in ("events.jsonl", "settings.yaml"):
        (tmp_path / name).write_text((world / name).read_text())
    text = QUERY.replace("within: 60 s", "window: {size: 200 events, slide: 100 events}").replace("shedder: gspice, pane: 7 events, ", "")
    (tmp_path / "theft.yaml").write_text(text)
    (tmp_path / "models").mkdir()
    assert without_models(*deployed(tmp_path, tmp_path / "models")) == [("theft", "auto")]
    learn(tmp_path, tmp_path / "models" / "theft.model", shedder="espice")
    with pytest.raises(ConfigurationError, match="espice goes by positions in windows of time; this query's are in events") as caught:
        deployed(tmp_path, tmp_path / "models")
    assert "hint: let cep train choose" in str(caught.value)


@pytest.mark.parametrize("shedder", ["pspice", "stateful", "pm-random"])
def test_shedders_of_partial_matches_that_ask_what_is_left_of_a_window_are_refused_where_nobody_can_say(world, tmp_path, shedder):
    (tmp_path / "settings.yaml").write_text((world / "settings.yaml").read_text())
    windowed = QUERY.replace("within: 60 s", "window: {size: 60 s, slide: 20 s}").replace("gspice, pane: 7 events", shedder)
    (tmp_path / "theft.yaml").write_text(windowed)
    with pytest.raises(ConfigurationError, match=f"the shedder {shedder} asks how much of a window is left") as caught:
        deployed(tmp_path, None)
    assert "hint: write for instance gspice or espice" in str(caught.value)
    (tmp_path / "theft.yaml").write_text(windowed.replace("window: {size: 60 s, slide: 20 s}", "within: 60 s"))
    deployed(tmp_path, None)
