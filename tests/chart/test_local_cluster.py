"""The chart in `mode: local` on a fake Kubernetes, on every run: no image is built, this machine's environment stands for it.

Needs fakekube (CEP_TOOLS, or beside the project) and root. `test_cluster.py` does the rest, with the image, at night.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.chart.cluster import QUERIES, RELEASE, TOOLS, Cluster, fake_cluster, until
from tests.chart.host_image import host_image

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def cluster(helm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    fakekube = TOOLS / "fakekube" / "fakekube"
    if not fakekube.exists() or os.geteuid() != 0:
        pytest.skip("needs fakekube (CEP_TOOLS, or beside the project) and root")
    looked = subprocess.run([str(fakekube), "doctor"], capture_output=True, text=True, check=False, timeout=60)
    if looked.returncode != 0:
        pytest.skip(f"fakekube lacks something here: {looked.stdout}{looked.stderr}")
    folder = tmp_path_factory.mktemp("local")
    with fake_cluster(host_image(folder), helm, folder) as running:
        running.install(mode="local")
        yield running


def test_thefts_of_the_retail_stream_arrive_on_the_brokers_topic(cluster: Cluster) -> None:
    cluster.expect(cluster.shoppers(seed=1))


def test_the_releases_own_test_passes(cluster: Cluster) -> None:
    told = cluster.helm("test", RELEASE, "--logs", "--timeout", "180s")
    assert [line[:3] for line in told.splitlines() if line.startswith("[")] == ["[+]"] * 4, told


def test_an_edited_configmap_is_live_without_a_restart(cluster: Cluster) -> None:
    """And the topic of the query that comes is made."""
    before = cluster.pods("driver")[0]
    cluster.edit_queries(QUERIES)
    until(lambda: cluster.running() == set(QUERIES), 120, "both queries")
    stream = cluster.shoppers(seed=2)
    for query in QUERIES:
        cluster.expect(stream, query)
    after = cluster.pods("driver")[0]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0


def test_an_upgrade_goes_on_from_the_claim(cluster: Cluster) -> None:
    old = cluster.pods("driver")[0]["metadata"]["uid"]
    stream = cluster.shoppers(seed=3)
    cluster.install("upgrade", mode="local", settings={**cluster.values()["settings"], "watchdog": {"enabled": False}})
    assert cluster.pods("driver")[0]["metadata"]["uid"] != old, "settings are in the checksum"
    cluster.expect(stream)
    alerts = cluster.of(stream)
    assert len(alerts) == len({alert["id"] for alert in alerts})


def test_it_compiled_no_kernel(cluster: Cluster) -> None:
    kept, used = (cluster.files(f"{RELEASE}-cep-0", folder) for folder in ("/opt/cep/kernels", "/tmp/kernels"))
    assert len(kept) > 100
    assert used == kept, "numba writes what it compiles"


def test_uninstalled_it_leaves_the_claim_alone(cluster: Cluster) -> None:
    cluster.helm("uninstall", RELEASE, "--wait", "--timeout", "180s")
    assert cluster.kubectl("get", "pvc", "-o", "name") == f"persistentvolumeclaim/{RELEASE}-cep\n"
