"""`executor.instances` says how large a release is; what follows from it, in the rendered settings and in the README's table."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.chart.conftest import CHART, Rendered

MIB = 1 << 20


def memory_mib(conf: dict[str, str]) -> int:
    """The limit of an executor's pod, as Spark adds it up."""
    texts = [conf[f"spark.executor.{name}"] for name in ("memory", "memoryOverhead", "pyspark.memory")]
    return sum(int(text[:-1]) * {"m": 1, "g": 1024}[text[-1]] for text in texts)


def derived(rendered: Rendered) -> dict[str, int]:
    settings = rendered.settings
    spark, kafka = settings["spark"], settings["kafka"]
    return {
        "buckets": spark["buckets"],
        "tasks": spark["ingress_tasks"],
        "records": kafka["max_offsets_per_trigger"],
        "bytes": kafka["max_bytes_per_trigger"],
        "consumers": int(spark["conf"]["spark.kafka.consumer.cache.capacity"]),
    }


def test_eight_executors_are_all_that_one_has_to_say(render):
    rendered = render({"executor": {"instances": 8}})
    assert derived(rendered) == {"buckets": 8, "tasks": 8, "records": 1_600_000, "bytes": 1024 * MIB, "consumers": 64}
    assert rendered.settings["spark"]["keep_buckets"] is True
    assert rendered.one("PodDisruptionBudget")["spec"]["minAvailable"] == 7


def test_cores_count_as_executors_do(render):
    one, other = (render({"executor": {"instances": i, "cores": c}}) for i, c in ((4, 2), (8, 1)))
    assert derived(one) == derived(other)
    assert memory_mib(one.settings["spark"]["conf"]) < 2 * memory_mib(other.settings["spark"]["conf"]), "one JVM for two cores"


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
def test_every_core_has_a_gibibyte_for_python_and_heap_beside_it(render, cores):
    conf = render({"executor": {"cores": cores}}).settings["spark"]["conf"]
    assert conf["spark.executor.pyspark.memory"] == f"{1024 * cores}m"
    assert int(conf["spark.executor.memory"][:-1]) >= 512 + 256 * cores
    assert int(conf["spark.executor.memoryOverhead"][:-1]) == 384 + 128 * cores


def test_what_is_said_wins(render):
    values = {
        "executor": {"instances": 8, "memory": "3g", "pysparkMemory": "2g", "memoryOverhead": "1g"},
        "spark": {"buckets": 32, "conf": {"spark.kafka.consumer.cache.capacity": "7"}},
        "settings": {"kafka": {"max_offsets_per_trigger": 5, "max_bytes_per_trigger": 6}},
    }
    rendered = render(values)
    assert derived(rendered) == {"buckets": 32, "tasks": 8, "records": 5, "bytes": 6, "consumers": 7}
    assert memory_mib(rendered.settings["spark"]["conf"]) == 6 * 1024
    assert "keep_buckets" not in rendered.settings["spark"], "who says a number means it"


def test_consumers_are_kept_for_every_topic_partition(render):
    streams = {"a": {"topics": ["a", "b"], "partitions": 60}, "c": {"topics": ["c"]}}
    assert derived(render({"streams": streams}))["consumers"] == 2 * 60 + 4 + 1, "and the heartbeat's"


def test_the_driver_alone_has_as_many_buckets_as_cores(render):
    small = derived(render({"mode": "local", "driver": {"localCores": 3}, "executor": {"instances": 9}}))
    assert (small["buckets"], small["tasks"], small["records"]) == (3, 3, 600_000)


def test_a_job_beside_the_driver_has_the_size_of_its_own_pod(render):
    job = render({"executor": {"instances": 8}, "reconcile": {"enabled": True}}).one("ConfigMap", "-reconcile")
    spark = yaml.safe_load(job["data"]["settings.yaml"])["spark"]
    assert (spark["master"], spark["ingress_tasks"], spark["keep_buckets"]) == ("local[2]", 2, True)


def rows() -> list[list[str]]:
    """The README's table."""
    text = (CHART / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| events per second |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def test_the_readme_has_a_table_from_throughput_to_values():
    assert [row[0] for row in rows()] == ["to 100,000", "to 100,000", "to 200,000", "to 400,000", "to 800,000"]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[1])
def test_the_table_says_what_the_chart_renders(render, row):
    rate, say, buckets, records, size, cores, memory = row
    instances = re.search(r"executor.instances: (\d+)", say)
    rendered = render({"executor": {"instances": int(instances[1])}} if instances else {"mode": "local"})
    found = derived(rendered)
    assert (f"{found['buckets']}", f"{found['records']:,}", f"{found['bytes'] // MIB} MiB") == (buckets, records, size)
    assert int(rate.removeprefix("to ").replace(",", "")) == 50_000 * found["tasks"]
    if instances:
        assert int(cores) == found["tasks"]
        assert memory == f"{memory_mib(rendered.settings['spark']['conf']) * int(instances[1]) / 1024:g} GiB"
