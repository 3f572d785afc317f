"""The application with executors of their own, every secret planted, and everything that others can see searched for them.

The broker wants SCRAM over TLS, the registry a password, the control port a token; Spark's connections and the owners' are encrypted. Then the Kafka password is
exchanged while it runs.
"""

from __future__ import annotations

import base64
import contextlib
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
import yaml

from app.config.settings import load_settings
from app.delivery.security import client_options
from app.events.registry import Registry, RegistrySettings
from app.local.generators import generate
from app.local.outlets import outlet_of
from app.local.ports import free_ports
from app.local.registry import embedded_registry
from app.local.sending import Sender, at_once
from ops.bench.processes import LOCAL_CLUSTER, family_of, spark_home
from tests.kafka.application import ROOT, Application, until
from tests.kafka.secured import GuardedRegistry, Secured, secured_services
from tests.kafka.test_whole_way import START_MS, apply_topics

NAME, REGISTRY_USER = "secrets", "cep-registry"
PAGES = 150
REGISTRY_VARIABLE = "CEP_SCHEMA_REGISTRY__PASSWORD"


@pytest.fixture(scope="module")
def secured(tmp_path_factory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    with secured_services(folder) as services:
        for name in ("registry-password", "task-token", "control-token", "tls-key-password"):
            services.secrets[name] = f"planted-{name}-0123456789"
            (folder / name).write_text(services.secrets[name])
        services.authority.issue("console", services.secrets["tls-key-password"])
        yield services


@pytest.fixture(scope="module")
def registry(secured, tmp_path_factory) -> Iterator[GuardedRegistry]:
    with embedded_registry(tmp_path_factory.mktemp("registry")) as inner:
        guarded = GuardedRegistry(inner.url, REGISTRY_USER, secured.secrets["registry-password"])
        yield guarded
        guarded.close()


def settings_of(secured: Secured, registry: GuardedRegistry, ui_port: int) -> dict:
    retail = [str(ROOT / "schemas" / f"{name}.avsc") for name in ("ShelfReading", "CounterReading", "ExitReading", "BackroomReading")]
    stream = {"topics": [f"{NAME}.retail"], "schemas": retail, "time": "time", "ordered_by": "tag_id", "idle_after": "1 s", "partitions": 2}
    conf = {**LOCAL_CLUSTER, "spark.ui.enabled": "true", "spark.ui.port": str(ui_port), "spark.log.level": "INFO"}
    return {
        "application": f"cep-{NAME}",
        "kafka": secured.kafka("scram"),
        "schema_registry": {"url": registry.url, "username": REGISTRY_USER, "retry_for": "30 s", "timeout": "30 s"},
        "streams": {"retail": stream},
        "queries": {"paths": [str(ROOT / "queries" / "shoplifting.yaml")]},
        "topics": {"prefix": NAME, "partitions": 2},
        "spark": {"master": "local-cluster[1,1,1024]", "ingress_tasks": 1, "encryption": "on", "conf": conf},
        "logging": {"level": "DEBUG"},
    }


def control_of(secured: Secured, port: int) -> dict:
    return {
        "port": port,
        "token_file": str(secured.folder / "control-token"),
        "certificate_file": str(secured.folder / "console.crt"),
        "key_file": str(secured.folder / "console.key"),
        "key_password_file": str(secured.folder / "tls-key-password"),
    }


@pytest.fixture
def application(secured, registry, tmp_path) -> Iterator[Application]:
    """The registry's password comes as a variable, all others as files."""
    ui_port, control_port = free_ports(2)
    settings = settings_of(secured, registry, ui_port)
    apply_topics(settings | {"schema_registry": {"url": registry.url}}, tmp_path)
    variables = {"SPARK_HOME": str(spark_home(tmp_path / "home")), REGISTRY_VARIABLE: secured.secrets["registry-password"]}
    made = Application(tmp_path, settings, env=variables)
    made.settings["http"] |= {"task_token_file": str(secured.folder / "task-token"), "control": control_of(secured, control_port)}
    made.file.write_text(yaml.safe_dump(made.settings))
    made.ui_port, made.control_port = ui_port, control_port
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


def send(application: Application, secured: Secured, batches) -> int:
    loaded = load_settings(application.file, {REGISTRY_VARIABLE: secured.secrets["registry-password"]})
    known = Registry(
        RegistrySettings(loaded.schema_registry.url, {"basic.auth.user.info": f"{REGISTRY_USER}:{secured.secrets['registry-password']}"})
    )
    with Sender(client_options(loaded.kafka), outlet_of("retail", loaded.streams["retail"], known), at_once) as sender:
        return sender.send(batches).events


def found_in(where: str, content: bytes, secured: Secured, without: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{name} in {where}"
        for name, secret in secured.secrets.items()
        if name not in without and any(shape in content for shape in shapes(secret))
    ]


def shapes(secret: str) -> Iterator[bytes]:
    """The secret, and what base64 makes of it behind whatever stands before it (``user:password``)."""
    yield secret.encode()
    for before in range(3):
        encoded = base64.b64encode(b"-" * before + secret.encode())
        yield encoded[(0, 2, 3)[before] : len(encoded) // 4 * 4 - 4]


def processes(application: Application, secured: Secured) -> tuple[list[str], int]:
    """Secrets in command lines and environments of the application and all that it started; the driver was given one as a variable."""
    found, looked_at = [], 0
    for process in family_of(application.process.pid):
        for what in ("cmdline", "environ"):
            with contextlib.suppress(OSError):  # it may have ended
                content = Path(f"/proc/{process.pid}/{what}").read_bytes()
                given = ("registry-password",) if what == "environ" and process.pid == application.process.pid else ()
                found += found_in(f"{what} of {process.command()[:200]}", content, secured, given)
                looked_at += what == "environ"
    return found, looked_at


def page(url: str, context: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=60, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def crawled(start: str) -> dict[str, bytes]:
    """A web site, page by page; and what its programs can ask."""
    pages: dict[str, bytes] = {}
    waiting = [start]
    while waiting and len(pages) < PAGES:
        url = waiting.pop(0)
        if url in pages or not url.startswith(start) or "/kill" in url:
            continue
        _, pages[url] = page(url)
        waiting += [urljoin(url, link) for link in re.findall(r'(?:href|src)="([^"#\s\'+<>{}$]+)"', pages[url].decode(errors="replace"))]
    return pages


def spark_ui(application: Application) -> dict[str, bytes]:
    base = f"http://127.0.0.1:{application.ui_port}/"
    pages = crawled(base)
    _, listed = page(f"{base}api/v1/applications")
    (name,) = set(re.findall(rb'"id" : "([^"]+)"', listed))
    for what in ("environment", "jobs", "stages", "allexecutors", "sql?details=true&planDescription=true", "streaming/queries"):
        url = f"{base}api/v1/applications/{name.decode()}/{what}"
        pages[url] = page(url)[1]
    return pages


def endpoints(application: Application, secured: Secured) -> dict[str, bytes]:
    context = ssl.create_default_context(cafile=str(secured.authority.file))
    paths = (
        "/",
        "/livez?verbose",
        "/readyz?verbose",
        "/startupz",
        "/metrics",
        "/queries",
        "/log-level",
        "/version",
        "/registry",
        "/nothing",
    )
    found = {f"probes {path}": page(f"http://127.0.0.1:{application.port}{path}")[1] for path in paths}
    return found | {f"control {path}": page(f"https://localhost:{application.control_port}{path}", context)[1] for path in paths}


def files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_planted_secrets_are_seen_nowhere_and_an_exchanged_password_is_used_without_a_restart(application, secured):
    batches = list(generate("retail", 6_000, seed=5, start_ms=START_MS, batch_rows=3000).batches)
    application.start()
    until(lambda: application.get("/startupz") == 200, seconds=400, alive=application.alive)
    sent = send(application, secured, batches[:1])
    until(lambda: application.has_consumed(sent, f"{NAME}.retail"), seconds=400, alive=application.alive)

    leaks, looked_at = processes(application, secured)
    assert looked_at >= 6, "driver, two JVMs, daemon, keeper, owner at least"
    ui = spark_ui(application)
    assert len(ui) > 10
    assert any(b"spark.authenticate" in content for content in ui.values()), "the page of settings was among them"
    served = endpoints(application, secured)
    assert b"cep_leader 1.0" in served["control /metrics"]
    assert b"everything else is at the control port" in served["probes /queries"]
    for where, content in {**ui, **served}.items():
        leaks += found_in(where, content, secured)

    secured.secrets["password-before"] = secured.secrets["password"]
    secured.exchange_password("planted-password-exchanged-while-it-runs")
    sent += send(application, secured, batches[1:])
    until(lambda: application.has_consumed(sent, f"{NAME}.retail"), seconds=400, alive=application.alive)
    until(lambda: "has read its secrets again" in application.log.read_text(errors="replace"), seconds=120, alive=application.alive)
    leaks += processes(application, secured)[0]
    assert application.stop(180) == 0

    written = [application.log, *files_below(application.checkpoint), *files_below(application.folder / "home" / "spark" / "work")]
    assert len(written) > 10
    assert any(b"ConsumerConfig values" in file.read_bytes() for file in written), "Java's client says at this level what it was made with"
    for file in written:
        leaks += found_in(str(file), file.read_bytes(), secured)
    assert leaks == []


def test_the_search_would_have_found_them(secured):
    """What it looks for is there, and it does look."""
    for name, secret in secured.secrets.items():
        assert found_in("here", f"a line with {secret} in it".encode(), secured) == [f"{name} in here"]
        for user in ("u", "us", "use"):
            assert found_in("here", b"Basic " + base64.b64encode(f"{user}:{secret}".encode()), secured) == [f"{name} in here"]
    assert found_in("here", b"planted nothing", secured) == []
