"""The chart and the image on a fake Kubernetes: `helm install`, a real broker and registry outside, composite events on the topic.

Takes minutes: marker ``image``. The tests build on each other, in this order; each leaves a release that works.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.cluster import QUERIES, Cluster, fake_cluster, until

pytestmark = [pytest.mark.image, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def cluster(image: Path, helm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with fake_cluster(image, helm, tmp_path_factory.mktemp("cluster")) as running:
        running.make_topics()
        running.install()
        yield running


def test_thefts_of_the_retail_stream_arrive_on_the_brokers_topic(cluster):
    cluster.expect(cluster.shoppers(seed=1))


def test_executors_are_pods_of_ours_without_a_token(cluster):
    executors = until(lambda: len(found := cluster.pods("executor")) == 2 and found, 30, "two executors")
    driver = cluster.pods("driver")[0]
    for pod in executors:
        assert pod["metadata"]["ownerReferences"][0]["uid"] == driver["metadata"]["uid"]
        mounts = [m["mountPath"] for m in pod["spec"]["containers"][0]["volumeMounts"]]
        assert not [path for path in mounts if "serviceaccount" in path]
        assert pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == "1792Mi", "heap, overhead and Python workers"


def test_a_killed_executor_is_replaced_and_nothing_is_lost(cluster):
    before = {pod["metadata"]["name"] for pod in cluster.pods("executor")}
    cluster.kubectl("delete", "pod", min(before), "--wait=false")
    stream = cluster.shoppers(seed=2)
    until(lambda: len({p["metadata"]["name"] for p in cluster.pods("executor")}) == 2, 60, "two executors again")
    assert before != {pod["metadata"]["name"] for pod in cluster.pods("executor")}
    cluster.expect(stream)


def test_a_killed_driver_goes_on_from_its_checkpoint(cluster):
    old = cluster.pods("driver")[0]["metadata"]["uid"]
    cluster.kubectl("delete", "pod", "shop-cep-0", "--grace-period=0", "--force", "--wait=false")
    stream = cluster.shoppers(seed=3)
    until(lambda: (found := cluster.pods("driver")) and found[0]["metadata"]["uid"] != old, 60, "a new driver")
    cluster.expect(stream)
    matches = {alert["id"]: {(e["partition"], e["offset"]) for e in alert["events"]} for alert in cluster.alerts()}
    assert len(matches) == len({frozenset(places) for places in matches.values()}), "what was written twice kept its identity"


def test_a_driver_that_dies_in_its_pod_comes_back_without_its_old_executors(cluster):
    driver, old = cluster.pods("driver")[0], {pod["metadata"]["name"] for pod in cluster.pods("executor")}
    # 1 is tini, 2 the application; the shell may die with its container before it can say that all went well
    cluster.kubectl("exec", "shop-cep-0", "--", "sh", "-c", "kill -9 2", codes=None)
    stream = cluster.shoppers(seed=4)
    cluster.expect(stream)
    again = cluster.pods("driver")[0]
    assert again["metadata"]["uid"] == driver["metadata"]["uid"]
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1
    assert not old & {pod["metadata"]["name"] for pod in cluster.pods("executor")}


def test_an_upgrade_with_another_query_stops_the_old_driver_in_good_order_and_runs_both(cluster):
    old = cluster.pods("driver")[0]["metadata"]["uid"]
    before = cluster.shoppers(seed=5)
    cluster.install("upgrade", queries={"inline": {f"{name}.yaml": text for name, text in QUERIES.items()}})
    assert cluster.pods("driver")[0]["metadata"]["uid"] != old, "queries are in the checksum"
    assert '"event": "stopped"' in cluster.driver_logs()[-2]
    after = cluster.shoppers(seed=6)
    cluster.expect(before)
    cluster.expect(after)
    cluster.expect(after, "counterfeit-path")


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
    until(lambda: cluster.kubectl("get", "pods", "-o", "name") == "", 60, "no pods")
    assert cluster.kubectl("get", "pvc", "-o", "name") == "persistentvolumeclaim/shop-cep\n"


def test_installed_again_as_one_pod_it_goes_on_where_the_claim_says(cluster):
    stream = cluster.shoppers(seed=7)  # while nobody listens
    cluster.install(mode="local")
    cluster.expect(stream)
    assert cluster.pods("executor") == []
