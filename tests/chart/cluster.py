"""A fake cluster with the real image, and a real broker and registry outside of it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import fastavro
import yaml
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient

from app.config.settings import load_settings
from app.delivery.security import client_options
from app.events.batch import EventBatch
from app.events.registry import Registry as Schemas
from app.events.registry import RegistrySettings
from app.local.broker import Broker
from app.local.generators import GeneratedStream, generate
from app.local.outlets import outlet_of
from app.local.registry import Registry, embedded_registry
from app.local.sending import Sender, at_once
from tests.chart.secured_values import guarded_registry, secured_values
from tests.kafka.secured import GuardedRegistry, Secured, secured_services

PROJECT = Path(__file__).resolve().parents[2]
TOOLS = Path(os.environ.get("CEP_TOOLS") or PROJECT.parent / "shared" / "tools")
"""Where `build-image`, `run-image` and `fakekube` are."""
IMAGE = "cep:test"
HOST = "host.fakekube.internal"
"""This machine's name inside the fake cluster."""
RETAIL_SCHEMAS = ("ShelfReading", "CounterReading", "ExitReading", "BackroomReading")
QUERIES = {name: (PROJECT / "queries" / f"{name}.yaml").read_text(encoding="utf-8") for name in ("shoplifting", "counterfeit-path")}
OUTPUTS = ("cep.alerts", "cep.counterfeit-path")
READINGS, PARTITIONS = "retail.readings", 2
NAMESPACE = "stores"
RELEASE = "shop"
Seen = TypeVar("Seen")


def streams(schema_folder: str | Path) -> dict[str, Any]:
    """The retail stream, for settings inside the image and outside."""
    files = [f"{schema_folder}/{name}.avsc" for name in RETAIL_SCHEMAS]
    return {"retail": {"topics": [READINGS], "schemas": files, "time": "time", "ordered_by": "tag_id", "partitions": PARTITIONS}}


def until(what: Callable[[], Seen], seconds: float, why: str = "") -> Seen:
    """What the call returns as soon as it is true."""
    deadline = time.monotonic() + seconds
    while not (seen := what()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {why}"
        time.sleep(0.2)
    return seen


@dataclass
class Cluster:
    """Everything a test needs to play the operator, the stores and the readers of alerts."""

    state: Path
    kubeconfig: str
    helm_program: str
    services: Secured
    registry: Registry
    guarded: GuardedRegistry
    folder: Path
    found: list[dict[str, Any]] = field(default_factory=list)
    _consumer: Consumer | None = None

    @property
    def broker(self) -> Broker:
        """Its addresses that want to know nothing."""
        return self.services.broker

    def kubectl(self, *arguments: str, codes: tuple[int, ...] | None = (0,)) -> str:
        """The output of kubectl in our namespace; ``codes``: what it may exit with, None: anything."""
        return self._run("kubectl", "-n", NAMESPACE, *arguments, codes=codes)

    def helm(self, *arguments: str) -> str:
        """The output of Helm in our namespace."""
        return self._run(self.helm_program, *arguments, "-n", NAMESPACE)

    def _run(self, *argv: str, codes: tuple[int, ...] | None = (0,)) -> str:
        env = {**os.environ, "KUBECONFIG": self.kubeconfig}
        done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False, timeout=600)
        assert codes is None or done.returncode in codes, f"{' '.join(argv)}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def logs(self) -> str:
        """The end of every container's log, for messages of failed tests."""
        ends = [
            f"--- {path.parent.parent.name}/{path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.state.glob("pods/*/logs/*.log"))
        ]
        return "\n".join(ends)

    def pods(self, component: str) -> list[dict[str, Any]]:
        """Pods of a component that run and are not on their way out."""
        listed = json.loads(self.kubectl("get", "pods", "-o", "json", "-l", f"app.kubernetes.io/instance={RELEASE}"))["items"]
        return [
            pod
            for pod in listed
            if pod["metadata"]["labels"].get("app.kubernetes.io/component") == component
            and pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def values(self) -> dict[str, Any]:
        """The values of the release: the shipped query, the registry and broker outside."""
        return {
            "image": dict(zip(("repository", "tag"), IMAGE.split(":"), strict=True)),
            "kafka": {"bootstrapServers": self.broker.outside_servers},
            "schemaRegistry": {"url": self.registry.url.replace("127.0.0.1", HOST)},
            "streams": streams("/opt/cep/schemas"),
            "queries": {"inline": {"shoplifting.yaml": QUERIES["shoplifting"]}},
            "settings": {"kafka": {"starting_offsets": "earliest"}},
            "topics": {"provision": "job"},
            # less for Python than the address space of a worker when it is forked: that must not be held against it
            "executor": {"requestCores": "100m", "memory": "512m", "pysparkMemory": "512m", "memoryOverhead": "768m"},
            "driver": {"resources": {"requests": {"cpu": "100m", "memory": "2Gi"}, "limits": {"memory": "3Gi"}}},
        }

    def secured(self, way: str) -> dict[str, Any]:
        """Values by which a release speaks with broker and registry over TLS, one way of the broker's; makes the Secrets that they name."""
        values, secrets = secured_values(self.services, self.guarded, way)
        there = self.kubectl("get", "secrets", "-o", "name").split()
        for name, files in secrets.items():
            if f"secret/{name}" not in there:
                self.kubectl("create", "secret", "generic", name, *(f"--from-file={file}" for file in files))
        return values

    def install(self, command: str = "install", **more: Any) -> str:
        """Installs or upgrades, and waits until the driver is ready."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump({**self.values(), **more}), encoding="utf-8")
        return self.helm(command, RELEASE, str(PROJECT / "helm"), "-f", str(file), "--wait", "--timeout", "300s")

    def driver_says(self, path: str) -> str:
        """What the driver's HTTP server answers, whatever its status; nothing while there is none."""
        for pod in self.pods("driver"):
            try:
                with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8081{path}", timeout=10) as answer:
                    return answer.read().decode()
            except urllib.error.HTTPError as answer:
                return answer.read().decode()
            except OSError:
                continue
        return ""

    def owners(self) -> int:
        """How many processes that can hold buckets the driver knows."""
        lines = [line for line in self.driver_says("/metrics").splitlines() if line.startswith("cep_owners ")]
        return int(float(lines[0].split()[1])) if lines else 0

    def queries(self) -> dict[str, Any]:
        """What the driver tells of its queries."""
        return json.loads(self.driver_says("/queries") or "{}")

    def running(self) -> set[str]:
        """Names of the queries that run."""
        return {query["query"] for query in self.queries().get("queries", ()) if query["status"] == "running"}

    def edit_queries(self, texts: dict[str, str]) -> None:
        """Lays texts over the release's ConfigMap of queries, as `kubectl edit` would."""
        data = {"data": {f"{name}.yaml": text for name, text in texts.items()}}
        self.kubectl("patch", "configmap", f"{RELEASE}-cep-queries", "--type=merge", "-p", json.dumps(data))

    def processes(self, pod: str) -> list[str]:
        """Names of the processes of a pod."""
        return self.kubectl("exec", pod, "--", "sh", "-c", "cat /proc/[0-9]*/comm 2>/dev/null", codes=None).split()

    def files(self, pod: str, folder: str) -> list[str]:
        """Files below a folder of a pod, with their sizes, by name."""
        listing = self.kubectl("exec", pod, "--", "find", folder, "-type", "f", "-printf", r"%P %s\n")
        return sorted(listing.splitlines())

    def mapped(self, pod: str) -> str:
        """Archives of classes that processes of a pod have in memory."""
        return self.kubectl("exec", pod, "--", "sh", "-c", r"grep -h '\.jsa$' /proc/[0-9]*/maps 2>/dev/null", codes=None)

    def outside_settings(self) -> Path:
        """A settings file for commands that run on this machine."""
        (self.folder / "queries").mkdir(exist_ok=True)
        for name, text in QUERIES.items():
            (self.folder / "queries" / f"{name}.yaml").write_text(text, encoding="utf-8")
        tree = {
            "kafka": {"bootstrap_servers": self.broker.bootstrap_servers},
            "schema_registry": {"url": self.registry.url},
            "streams": streams(PROJECT / "schemas"),
        }
        file = self.folder / "settings.yaml"
        file.write_text(yaml.safe_dump(tree), encoding="utf-8")
        return file

    def cep(self, *arguments: str) -> None:
        """Runs one of the application's own commands on this machine."""
        command = [sys.executable, "-m", "app", *arguments, "--settings", str(self.outside_settings())]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=PROJECT, timeout=400
        )  # a first run compiles kernels
        assert done.returncode == 0, done.stdout + done.stderr

    def shoppers(self, seed: int, events: int = 3000, rate: float = 500.0) -> GeneratedStream:
        """Sends readings that begin now, at their own speed, and returns them with their truth."""
        self.cep("produce", "retail", "--seed", str(seed), "--events", str(events), "--rate", str(rate), "--now")
        return generate("retail", events, seed, 0, rate)

    def send(self, batches: Sequence[EventBatch]) -> None:
        """Sends readings as fast as it can."""
        loaded = load_settings(self.outside_settings(), {})
        outlet = outlet_of("retail", loaded.streams["retail"], Schemas(RegistrySettings(self.registry.url)))
        with Sender(client_options(loaded.kafka), outlet, at_once) as sender:
            sender.send(batches)

    def ends(self) -> dict[int, int]:
        """By partition of the readings' topic, how many there are."""
        with closing(self._outside(f"{RELEASE}-cep")) as consumer:
            return {number: consumer.get_watermark_offsets(TopicPartition(READINGS, number), timeout=30)[1] for number in range(PARTITIONS)}

    def read(self) -> dict[int, int]:
        """By partition, how many readings are in batches that are over: what lag tools are told."""
        with closing(self._outside(f"{RELEASE}-cep")) as consumer:
            places = [TopicPartition(READINGS, number) for number in range(PARTITIONS)]
            return {place.partition: place.offset for place in consumer.committed(places, timeout=30)}

    def _outside(self, group: str) -> Consumer:
        options = {"bootstrap.servers": self.broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
        return Consumer({**options, "topic.metadata.refresh.interval.ms": 1000})

    def alerts(self) -> list[dict[str, Any]]:
        """Every composite event on the topics so far, decoded with the schema that the registry holds."""
        if self._consumer is None:
            self._consumer = self._outside("stores")
            self._consumer.subscribe(list(OUTPUTS))
        while (message := self._consumer.poll(0.5)) is not None:
            if message.error() is not None:
                assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART, message.error()  # of a query that comes later
                continue
            self.found.append(self._decoded(message.value()))
        return self.found

    def _decoded(self, value: bytes) -> dict[str, Any]:
        schema = SchemaRegistryClient({"url": self.registry.url}).get_schema(int.from_bytes(value[1:5], "big"))
        return fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(json.loads(schema.schema_str)))

    def reported(self, stream: GeneratedStream, query: str) -> set[str]:
        """Tags of a stream that a query reported."""
        return {alert["fields"]["tag_id"] for alert in self.of(stream, query)}

    def of(self, stream: GeneratedStream, query: str = "shoplifting") -> list[dict[str, Any]]:
        """What a query reported of a stream so far, as often as it was written."""
        prefix = next(iter(stream.truth[query].expected))[0][:4]  # the seed
        return [alert for alert in self.alerts() if alert["query"] == query and alert["fields"]["tag_id"].startswith(prefix)]

    def expect(self, stream: GeneratedStream, query: str = "shoplifting", seconds: float = 180) -> None:
        """Waits until exactly what is true of a stream has been reported."""
        truth = {tag for (tag,) in stream.truth[query].expected}
        assert truth
        try:
            until(lambda: truth <= self.reported(stream, query), seconds, f"composite events of {query}")
        except AssertionError as error:
            raise AssertionError(f"{error}; missing {len(truth - self.reported(stream, query))} of {len(truth)}\n{self.logs()}") from error
        assert self.reported(stream, query) == truth

    def driver_logs(self) -> list[str]:
        """The logs of all drivers and their runs, oldest first."""
        files = sorted(self.state.glob("pods/*/logs/driver.*.log"), key=lambda path: path.stat().st_ctime)
        return [path.read_text(encoding="utf-8", errors="replace") for path in files]

    def requests(self) -> list[dict[str, Any]]:
        """What the driver asked the API for, from the audit log."""
        lines = (self.state / "audit.jsonl").read_text(encoding="utf-8").splitlines()
        user = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-cep-driver"
        return [entry for entry in map(json.loads, lines) if entry["user"] == user]

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def built_image(image: Path) -> str:
    """What `build-image` has made."""
    return f'oci = "{image}"\n'


@contextmanager
def fake_cluster(stands_for: str, helm_program: str, folder: Path) -> Iterator[Cluster]:
    """A cluster that knows one image, with a namespace under the restricted profile.

    Args:
        stands_for: what is run for `IMAGE`: lines of fakekube's mapping, as `built_image` and `host_image` give them.
        helm_program: where Helm is.
        folder: for everything that is written.
    """
    sys.path.insert(0, str(TOOLS / "fakekube"))
    from fk.cli import FakeKube

    images = folder / "images.toml"
    images.write_text(f'[[image]]\nmatch = "{IMAGE}"\n{stands_for}', encoding="utf-8")
    state = folder / "cluster"
    with ExitStack() as stack:
        (folder / "broker").mkdir()
        services = stack.enter_context(secured_services(folder / "broker", HOST))
        registry = stack.enter_context(embedded_registry(folder / "registry", listen="0.0.0.0"))
        guarded = stack.enter_context(closing(guarded_registry(services, registry, HOST)))
        kube = stack.enter_context(FakeKube(images=str(images), state=str(state), backoff=1.0))
        cluster = Cluster(state, kube.kubeconfig, helm_program, services, registry, guarded, folder)
        stack.callback(cluster.close)
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        yield cluster
