"""The chart and the image on a fake Kubernetes: `helm install`, a real broker and registry outside, composite events on the topic.

Takes minutes: marker ``image``. The tests build on each other, in this order; each leaves a release that works. Seconds that they measure are in
the file that ``--junitxml`` names.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.local.generators import generate
from tests.chart.cluster import QUERIES, RELEASE, Cluster, built_image, fake_cluster, until

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.timeout(1200)]


EXECUTORS = 2
COMMAND = "kill -9 2"
"""1 is tini, 2 the application."""


@pytest.fixture(scope="module")
def cluster(image: Path, helm: str, tmp_path_factory: pytest.TempPathFactory, record_testsuite_property) -> Iterator[Cluster]:
    with fake_cluster(built_image(image), helm, tmp_path_factory.mktemp("cluster")) as running:
        began = time.monotonic()
        running.install()
        record_testsuite_property("helm install --wait, s", f"{time.monotonic() - began:.1f}")
        yield running


def executors(cluster: Cluster) -> set[str]:
    return {pod["metadata"]["name"] for pod in cluster.pods("executor")}


def is_ready(cluster: Cluster) -> bool:
    """Queries run and a batch was done, or there was nothing to do."""
    return cluster.driver_says("/readyz").strip() == "readyz ok"


def test_thefts_of_the_retail_stream_arrive_on_the_brokers_topic(cluster):
    cluster.expect(cluster.shoppers(seed=1))


def test_the_releases_own_test_passes(cluster):
    told = cluster.helm("test", RELEASE, "--logs", "--timeout", "180s")
    assert [line[:3] for line in told.splitlines() if line.startswith("[")] == ["[+]"] * 4, told


def test_the_job_before_the_installation_had_the_topics_to_itself(cluster):
    """It is deleted when it succeeds; its log outlives it."""
    (log,) = cluster.state.glob("pods/*/logs/topics.*.log")
    text = log.read_text(encoding="utf-8")
    assert "+ retail.readings" in text
    assert "done: " in text


def test_executors_are_pods_of_ours_without_a_token(cluster):
    executors = until(lambda: len(found := cluster.pods("executor")) == 2 and found, 30, "two executors")
    driver = cluster.pods("driver")[0]
    for pod in executors:
        assert pod["metadata"]["ownerReferences"][0]["uid"] == driver["metadata"]["uid"]
        mounts = [m["mountPath"] for m in pod["spec"]["containers"][0]["volumeMounts"]]
        assert not [path for path in mounts if "serviceaccount" in path]
        assert pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == "1792Mi", "heap, overhead, Python workers and owners"


def test_every_executor_has_an_owner_that_the_driver_reached(cluster):
    until(lambda: cluster.owners() == EXECUTORS, 60, "owners")
    for name in executors(cluster):  # for a moment there are two, while one forks to write a snapshot
        until(lambda name=name: cluster.processes(name).count("cep-owner") == 1, 60, "one owner per core")


def test_java_of_driver_and_executors_maps_the_archive_of_classes(cluster):
    for pod in ("shop-cep-0", *executors(cluster)):
        assert "/opt/cep/cache/classes/" in cluster.mapped(pod)


def test_an_edited_configmap_is_live_without_a_restart(cluster, record_testsuite_property):
    """The topic of the query that comes is made by the driver."""
    driver, kept = cluster.pods("driver")[0], executors(cluster)
    assert cluster.running() == {"shoplifting"}
    began = time.monotonic()
    cluster.edit_queries(QUERIES)
    until(lambda: cluster.running() == set(QUERIES), 120, "both queries")
    record_testsuite_property("from the edit to the query that runs, s", f"{time.monotonic() - began:.1f}")
    stream = cluster.shoppers(seed=8)
    for query in QUERIES:
        cluster.expect(stream, query)
    again = cluster.pods("driver")[0]
    assert again["metadata"]["uid"] == driver["metadata"]["uid"]
    assert again["status"]["containerStatuses"][0]["restartCount"] == 0
    assert executors(cluster) == kept


def test_a_broken_query_in_the_configmap_is_told_and_the_others_go_on(cluster):
    cluster.edit_queries({"counterfeit-path": "name: ["})
    until(lambda: cluster.queries()["last_reading"]["outcome"] == "broken", 120, "the finding")
    assert cluster.running() == set(QUERIES)
    cluster.edit_queries(QUERIES)
    until(lambda: cluster.queries()["last_reading"]["outcome"] != "broken", 120, "the mended query")


def test_a_killed_executor_is_replaced_and_nothing_is_lost(cluster, record_testsuite_property):
    before = executors(cluster)
    began = time.monotonic()
    cluster.kubectl("delete", "pod", min(before), "--wait=false")
    stream = cluster.shoppers(seed=2)
    until(lambda: len(now := executors(cluster)) == EXECUTORS and now != before, 60, "two executors again")
    cluster.expect(stream)
    record_testsuite_property("from the deletion to all composite events of a stream of 6 s, s", f"{time.monotonic() - began:.1f}")
    cluster.shoppers(seed=9)  # an owner is found by a task beside it, and on a quiet topic there is none
    until(lambda: cluster.owners() == EXECUTORS, 120, "the new executor's owner")


def test_a_killed_driver_goes_on_from_its_checkpoint(cluster, record_testsuite_property):
    old = cluster.pods("driver")[0]["metadata"]["uid"]
    began = time.monotonic()
    cluster.kubectl("delete", "pod", "shop-cep-0", "--grace-period=0", "--force", "--wait=false")
    until(lambda: (found := cluster.pods("driver")) and found[0]["metadata"]["uid"] != old and is_ready(cluster), 300, "a new driver")
    record_testsuite_property("from the deletion to a ready driver, s", f"{time.monotonic() - began:.1f}")
    cluster.expect(cluster.shoppers(seed=3))
    matches = {alert["id"]: {(e["partition"], e["offset"]) for e in alert["events"]} for alert in cluster.alerts()}
    assert len(matches) == len({(alert["query"], frozenset(matches[alert["id"]])) for alert in cluster.alerts()}), (
        "what was written twice kept its identity"
    )


def test_a_driver_that_dies_in_its_pod_comes_back_without_its_old_executors(cluster):
    driver, old = cluster.pods("driver")[0], executors(cluster)
    # the shell may die with its container before it can say that all went well
    cluster.kubectl("exec", "shop-cep-0", "--", "sh", "-c", COMMAND, codes=None)
    stream = cluster.shoppers(seed=4)
    cluster.expect(stream)
    again = cluster.pods("driver")[0]
    assert again["metadata"]["uid"] == driver["metadata"]["uid"]
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1
    assert not old & executors(cluster)


def test_an_upgrade_with_other_settings_stops_the_old_driver_in_good_order_and_loses_nothing(cluster):
    old = cluster.pods("driver")[0]["metadata"]["uid"]
    before = cluster.shoppers(seed=5)
    settings = {**cluster.values()["settings"], "watchdog": {"enabled": False}}
    cluster.install("upgrade", queries={"inline": {f"{name}.yaml": text for name, text in QUERIES.items()}}, settings=settings)
    assert cluster.pods("driver")[0]["metadata"]["uid"] != old, "settings are in the checksum"
    assert '"event": "stopped"' in cluster.driver_logs()[-2]
    after = cluster.shoppers(seed=6)
    for stream in (before, after):
        for query in QUERIES:
            cluster.expect(stream, query)


def test_no_kernel_was_compiled_in_any_pod(cluster):
    for pod in ("shop-cep-0", *executors(cluster)):
        image, used = (cluster.files(pod, folder) for folder in ("/opt/cep/kernels", "/tmp/kernels"))
        assert len(image) > 100
        assert used == image, "numba writes what it compiles"


def test_the_driver_asked_for_nothing_that_its_role_does_not_hold(cluster):
    asked = cluster.requests()
    assert asked
    assert [entry for entry in asked if not entry["allowed"]] == []
    allowed = {(verb, "pods") for verb in ("get", "list", "watch", "create", "delete", "deletecollection")}
    assert {(e["verb"], e["resource"]) for e in asked} <= allowed | {
        (verb, "persistentvolumeclaims") for verb in ("list", "deletecollection")
    }


def test_uninstalling_stops_between_batches_and_leaves_the_claim_alone(cluster):
    cluster.helm("uninstall", "shop", "--wait", "--timeout", "180s")
    # the pod of the release's own test is no object of the release: Helm leaves it, with its log
    until(lambda: all("-test" in name for name in cluster.kubectl("get", "pods", "-o", "name").split()), 60, "no pods")
    assert cluster.kubectl("get", "pvc", "-o", "name") == "persistentvolumeclaim/shop-cep\n"


def test_installed_again_as_one_pod_it_goes_on_where_the_claim_says(cluster):
    stream = cluster.shoppers(seed=7)  # while nobody listens
    cluster.install(mode="local")
    cluster.expect(stream)
    assert cluster.pods("executor") == []


def with_executors(cluster: Cluster, instances: int) -> dict[str, Any]:
    """Values of a release of so many executors, over SASL_SSL with SCRAM, with a registry that speaks TLS and wants a password."""
    return {**cluster.secured("scram"), "executor": {**cluster.values()["executor"], "instances": instances}}


def test_thefts_arrive_where_broker_and_registry_speak_tls_and_want_passwords(cluster):
    """Driver, topics' job, Spark's source and the owners' producers: pods know no other address of either."""
    cluster.helm("uninstall", "shop", "--wait", "--timeout", "180s")
    cluster.install(**with_executors(cluster, 1))
    cluster.expect(cluster.shoppers(seed=10))
    until(lambda: cluster.owners() == 1, 60, "one owner, of all buckets")


def test_an_upgrade_to_more_executors_ends_what_was_half_seen_and_loses_and_doubles_nothing(cluster):
    stream = generate("retail", 8000, seed=11, start_ms=int(time.time() * 1000), rate_per_s=500.0, batch_rows=1000)
    before, old = len(stream.batches) // 2, cluster.pods("driver")[0]["metadata"]["uid"]
    cluster.send(stream.batches[:before])
    border = cluster.ends()
    until(lambda: cluster.read() == border, 120, "the first half in batches that are over")
    cluster.install("upgrade", **with_executors(cluster, 2))
    assert cluster.pods("driver")[0]["metadata"]["uid"] != old
    cluster.send(stream.batches[before:])
    cluster.expect(stream)
    until(lambda: cluster.owners() == 2, 120, "an owner in each executor")
    alerts = cluster.of(stream)
    assert set(Counter(alert["id"] for alert in alerts).values()) == {1}
    halves = [{event["offset"] < border[event["partition"]] for event in alert["events"]} for alert in alerts]
    assert {True, False} in halves, "picked before the upgrade, carried out after it"


def test_thefts_arrive_where_the_broker_wants_a_certificate(cluster):
    """The key is encrypted, its password another file."""
    cluster.install("upgrade", **cluster.secured("mutual"))
    cluster.expect(cluster.shoppers(seed=12))


def test_no_secret_of_theirs_is_in_a_log_or_in_an_object_that_is_none(cluster):
    objects = cluster.kubectl("get", "configmaps,pods,statefulsets,services", "-o", "json")
    logs = [path.read_text(errors="replace") for path in cluster.state.glob("pods/*/logs/*.log")]
    assert objects.count("/etc/cep/kafka") > 1
    assert [name for name, secret in cluster.services.secrets.items() for text in (objects, *logs) if secret in text] == []
