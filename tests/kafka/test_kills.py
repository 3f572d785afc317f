"""Whoever is killed under load, what is committed is what an undisturbed run commits: executors, Python workers, owners of buckets."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from app.local.generators import generate
from ops.bench.processes import LOCAL_CLUSTER, Process, family_of, spark_home
from tests.kafka.application import Application, expected_composites, records_of, until
from tests.kafka.test_whole_way import apply_topics, send, settings_for
from tests.undated import undated

START_MS = 1_780_000_000_000
KILLS = 24 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 3
KINDS = ("owner", "executor", "worker")
PER_KILL = 2500


def name_of(process: Process) -> str:
    try:
        return Path(f"/proc/{process.pid}/comm").read_text().strip()
    except OSError:
        return ""


def victims(application: Application, kind: str) -> list[int]:
    """Processes of a kind below the application."""
    family = family_of(application.process.pid)
    if kind == "owner":
        return [one.pid for one in family if name_of(one) == "cep-owner"]
    if kind == "executor":
        return [one.pid for one in family if "CoarseGrainedExecutorBackend" in one.command() and name_of(one) == "java"]
    executors = {one.pid for one in family if "CoarseGrainedExecutorBackend" in one.command()}
    daemons = {one.pid for one in family if one.parent in executors}
    return [one.pid for one in family if one.parent in daemons and name_of(one) not in ("cep-keeper", "cep-owner")]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600 + 60 * KILLS)
def test_whoever_is_killed_the_committed_output_is_that_of_an_undisturbed_run(embedded, tmp_path):
    chance = random.Random(20261122)
    queries = ["shoplifting", "counterfeit-path", "price-run"]
    settings = settings_for("kills", embedded, queries, kafka={"max_offsets_per_trigger": 1500})
    conf = {**LOCAL_CLUSTER, "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.quantile": "0.5"}
    settings["spark"] = {"master": "local-cluster[2,2,1024]", "buckets": 5, "ingress_tasks": 3, "batch_attempts": 8, "conf": conf}
    apply_topics(settings, tmp_path)
    application = Application(tmp_path, settings, env={"SPARK_HOME": str(spark_home(tmp_path / "home"))})
    application.started()
    inputs, sent, killed = ("kills.retail", "kills.stocks"), 0, Counter()
    streams = {
        name: iter(generate(name, PER_KILL * (KILLS + 1), seed=seed, start_ms=START_MS, batch_rows=PER_KILL).batches)
        for name, seed in (("retail", 5), ("stocks", 6))
    }
    for number in range(KILLS + 1):
        sent += sum(send(application, name, [next(batches)]) for name, batches in streams.items())
        if number == KILLS:
            break
        behind = chance.randrange(0, PER_KILL)  # a point within the work that was just sent
        until(lambda: application.has_consumed(sent - PER_KILL - behind, *inputs), seconds=300, pause=0.05, alive=application.alive)  # noqa: B023
        time.sleep(chance.random() * 0.3)
        kind = KINDS[number % len(KINDS)]
        found = until(lambda: victims(application, kind), seconds=60, alive=application.alive)  # noqa: B023
        os.kill(chance.choice(sorted(found)), signal.SIGKILL)
        killed[kind] += 1
    until(lambda: application.has_consumed(sent, *inputs), seconds=300, alive=application.alive)
    deployment = application.deployment()
    expected = expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, deployment)
    wanted = {event.id for events in expected.values() for event in events}
    topics = sorted({output.topic for output in deployment.outputs})

    def found() -> dict[str, list[str]]:
        by_id: dict[str, list[str]] = {}
        for record in records_of(embedded.broker.bootstrap_servers, *topics):
            if record.headers["ce_source"].startswith(b"/cep-kills/"):
                by_id.setdefault(record.headers["ce_id"].decode(), []).append(undated(record.value))
        return by_id

    until(lambda: wanted <= set(found()), seconds=120, pause=1.0, alive=application.alive)
    assert application.stop() == 0
    emitted = found()
    assert set(emitted) == wanted
    assert all(len(set(values)) == 1 for values in emitted.values()), "a repeated batch must write the same but for the moment"
    twice = sum(len(values) > 1 for values in emitted.values())
    print(f"{dict(killed)} killed; {len(wanted)} composite events, {twice} of them written more than once")
    assert sum(killed.values()) == KILLS
    assert not records_of(embedded.broker.bootstrap_servers, "kills.late")
