"""Query files that change under a running application: one start, many changes, and the identities of undisturbed runs."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.settings import load_settings
from app.delivery.security import client_options
from app.events.registry import Registry, RegistrySettings
from app.local.generators import generate
from app.local.outlets import outlet_of
from app.local.sending import Sender, at_once
from app.pipeline.preparation import compile_queries, prepare, read_streams
from tests.kafka.application import ROOT, Application, expected_composites, records_of, until
from tests.kafka.test_whole_way import START_MS, apply_topics, settings_for

QUERY = """\
name: {name}
version: {version}
from: retail
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
within: {within}
on_change: {on_change}
return: {{tag_id: s.tag_id}}
"""
LIVE_S = 5.0


def text(name: str, version: int = 1, on_change: str = "restart", more: str = "") -> str:
    return QUERY.format(name=name, version=version, on_change=on_change, within=f"{20 * version} s") + more


KEPT = ("shoplifting", "counterfeit-path")
BEFORE = {name: text(name) for name in ("changed", "removed", "renamed", "disabled")} | {"drained": text("drained", 1, "drain")}
AFTER = {name: text(name, version) for name, version in (("added", 1), ("changed", 2), ("renamed-again", 1))} | {
    "drained": text("drained", 2, "drain")
}


class Changing(Application):
    """An application with a folder of query files of its own."""

    def __init__(self, folder: Path, settings: dict) -> None:
        self.queries = folder / "queries"
        super().__init__(folder, {**settings, "queries": {"paths": [str(self.queries)], "reload": {"interval": "1 s"}}})
        self.write(**BEFORE, **{name: (ROOT / "queries" / f"{name}.yaml").read_text() for name in KEPT})

    def write(self, **files: str) -> None:
        self.queries.mkdir(exist_ok=True)
        for name, content in files.items():
            (self.queries / f"{name}.yaml").write_text(content)

    def told(self) -> dict:
        return json.loads(self.text("/queries"))

    def statuses(self) -> dict[tuple[str, int | None], str]:
        return {(one["query"], one.get("version")): one["status"] for one in self.told()["queries"]}

    def live_after(self, change, outcome: str = "reloaded") -> float:
        """Changes files; returns how many seconds it took until it was told."""
        before = self.told()["last_reading"]["read_at_ms"]
        change()
        began = time.monotonic()
        until(lambda: self.told()["last_reading"]["read_at_ms"] != before, seconds=30, pause=0.05, alive=self.alive)
        assert self.told()["last_reading"]["outcome"] == outcome, self.told()["last_reading"]
        return time.monotonic() - began


def composites(embedded, application: Changing, folder: Path, queries: dict[str, str]) -> dict[str, list]:
    """What these queries find in all that was sent, by name."""
    folder.mkdir()
    for name, content in queries.items():
        (folder / f"{name}.yaml").write_text(content)
    file = folder.with_suffix(".settings")
    file.write_text(yaml.safe_dump({**application.settings, "queries": {"paths": [str(folder)]}}))
    settings, registry = load_settings(file, {}), Registry(RegistrySettings(embedded.registry.url))
    streams = read_streams(settings, registry)
    deployment = prepare(settings, compile_queries(settings, streams), streams, registry)
    return expected_composites(embedded.broker.bootstrap_servers, embedded.registry.url, deployment)


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_queries_change_while_the_application_runs_and_others_do_not_notice(embedded, tmp_path):
    servers = embedded.broker.bootstrap_servers
    settings = settings_for("reload", embedded, [], kafka={"max_offsets_per_trigger": 1000})
    everything = tmp_path / "everything"
    everything.mkdir()
    application = Changing(tmp_path, settings)
    for name, content in {**BEFORE, **AFTER, **{name: (application.queries / f"{name}.yaml").read_text() for name in KEPT}}.items():
        (everything / f"{name}.yaml").write_text(content)
    apply_topics({**application.settings, "queries": {"paths": [str(everything)]}}, tmp_path)
    slices = list(generate("retail", 16_000, seed=5, start_ms=START_MS, rate_per_s=100.0, batch_rows=2000).batches)
    loaded = load_settings(application.file, {})
    outlet = outlet_of("retail", loaded.streams["retail"], Registry(RegistrySettings(embedded.registry.url)))
    sent, borders, seconds = 0, {}, []

    def send(*more: Any) -> None:
        """Sends a slice, and waits until it has been read."""
        nonlocal sent
        with Sender(client_options(loaded.kafka), outlet, at_once) as sender:
            sent += sender.send([slices.pop(0)]).events
        for files in more:
            change("meanwhile", files)
        until(lambda: application.has_consumed(sent, "reload.retail"), alive=application.alive)

    def change(name: str, files: dict[str, str], gone: str = "", outcome: str = "reloaded") -> None:
        def written() -> None:
            application.write(**files)
            if gone:
                (application.queries / f"{gone}.yaml").unlink()

        borders[name] = application.committed()
        seconds.append(application.live_after(written, outcome))

    application.start()
    until(lambda: application.get("/startupz") == 200, seconds=300, alive=application.alive)
    send()
    until(lambda: application.told()["last_reading"]["read_at_ms"], alive=application.alive)
    change("added", {"added": AFTER["added"]})
    send()
    change("changed", {"changed": AFTER["changed"]})
    send()
    change("drained", {"drained": AFTER["drained"]})
    assert application.statuses()["drained", 1] == "draining"
    send()
    change("broken", {"added": AFTER["added"].replace("tag_id", "tagid")}, gone="removed", outcome="broken")
    (finding, *_) = application.told()["last_reading"]["findings"]
    assert (Path(finding["path"]).name, finding["line"]) == ("added.yaml", 5)
    assert finding["hint"]
    assert application.statuses()["removed", 1] == "running"
    change("removed", {"added": AFTER["added"]})
    send()
    change("renamed", {"renamed-again": AFTER["renamed-again"]}, gone="renamed")
    send()
    change("disabled", {"disabled": BEFORE["disabled"] + "enabled: false\n"})
    # while batches run, tasks are told what comes; a title changes neither state nor identities
    send({"changed": AFTER["changed"] + "title: another\n"})
    while slices:
        send()
    until(lambda: ("drained", 1) not in application.statuses(), seconds=60, alive=application.alive)
    assert set(application.statuses().items()) >= {(("disabled", None), "disabled"), (("changed", 2), "running")}
    assert application.text("/metrics").count('query="removed"') == 0
    before = composites(embedded, application, tmp_path / "before", BEFORE)
    kept = {name: (application.queries / f"{name}.yaml").read_text() for name in KEPT}
    after = composites(embedded, application, tmp_path / "after", {**AFTER, **kept})

    def early(name: str, event) -> list[bool]:
        return [one.offset < borders[name].get((one.topic, one.partition), 0) for one in event.events]

    wanted = {event.id for name in KEPT for event in after[name]}
    wanted |= {e.id for name in ("changed", "removed", "renamed", "disabled") for e in before[name] if all(early(name, e))}
    wanted |= {e.id for name in ("added", "changed", "drained") for e in after[name] if not any(early(name, e))}
    wanted |= {e.id for e in after["renamed-again"] if not any(early("renamed", e))}
    finished = {e.id for e in before["drained"] if any(early("drained", e))}
    assert any(any(early("drained", e)) and not all(early("drained", e)) for e in before["drained"]), "there is something to finish"
    wanted |= finished
    topics = sorted({f"reload.{name}" for name in (*BEFORE, *AFTER)} | _topics(kept))

    def found() -> list[str]:
        own = [one for one in records_of(servers, *topics) if one.headers["ce_source"].startswith(b"/cep-reload/")]
        return [record.headers["ce_id"].decode() for record in own]

    until(lambda: wanted <= set(found()), seconds=60, pause=1.0, alive=application.alive)
    assert application.stop() == 0
    emitted = found()
    assert sorted(emitted) == sorted(wanted), f"lost {len(wanted - set(emitted))}, surplus {len(set(emitted) - wanted)}"
    assert all(after[name] for name in KEPT), "every query finds something, or the test shows nothing"
    assert max(seconds) < LIVE_S, f"live after {seconds}"


def _topics(kept: dict[str, str]) -> set[str]:
    """The topics that the queries name, or their own."""
    documents = [document for content in kept.values() for document in yaml.safe_load_all(content)]
    return {one.get("output", {}).get("topic", f"reload.{one['name']}") for one in documents}
