"""Which old versions of changed queries a deployment holds."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.bucket.hold import Progress
from app.config.settings import load_settings
from app.errors import ConfigurationError
from app.events.registry import Registry, RegistrySettings
from app.owners.deployment import Deployment, deployment_from_json
from app.pipeline.draining import Past, drains_for_ms
from app.pipeline.preparation import compile_queries, prepare, read_streams

ROOT = Path(__file__).parents[2]
P0, P1 = 1 << 20, (1 << 20) + 1  # behind the heartbeat
QUERY = """\
name: taken-out
version: {version}
from: retail
event: SEQ(ShelfReading s, ExitReading e)
where: "[tag_id]"
within: 10 s
on_change: drain
"""


def deployed(folder: Path, text: str, past: Past | None = None) -> Deployment:
    schemas = [str(ROOT / "schemas" / f"{name}.avsc") for name in ("ShelfReading", "ExitReading")]
    retail = {"topics": ["retail"], "schemas": schemas, "time": "time", "allowed_lateness": "2 s"}
    (folder / "q.yaml").write_text(text)
    (folder / "settings.yaml").write_text(yaml.safe_dump({"streams": {"retail": retail}, "queries": {"paths": ["q.yaml"]}}))
    settings = load_settings(folder / "settings.yaml", {})
    registry = Registry(RegistrySettings("mock://draining"))
    streams = read_streams(settings, registry)
    return prepare(settings, compile_queries(settings, streams), streams, registry, past)


def plans(deployment: Deployment) -> list[tuple[int, int | None]]:
    """Version, and of old ones until when they go on; -1: not known yet, None: the running version."""
    assert len(deployment.outputs) == len(deployment.timeouts) == len(deployment.models) == len(deployment.catalog.plans)
    return [
        (one.version, None if one.draining is None else -1 if one.draining.until_ms is None else one.draining.until_ms)
        for one in deployment.catalog.plans
    ]


def test_an_old_version_goes_on_until_time_has_passed_what_it_began(tmp_path: Path) -> None:
    first = deployed(tmp_path, QUERY.format(version=1))
    assert plans(deployed(tmp_path, QUERY.format(version=1), Past(first, {P0: 5_000}))) == [(1, None)], "nothing was changed"
    changed = deployed(tmp_path, QUERY.format(version=2), Past(first, {P0: 5_000}))
    assert plans(changed) == [(2, None), (1, -1)]
    assert changed.outputs[1] == first.outputs[0]
    assert {plan.name for plan in changed.catalog.current} == {"taken-out"}
    again = deployed(tmp_path, QUERY.format(version=2), Past(changed, {P0: 7_000, P1: 6_000}))
    assert plans(again) == [(2, None), (1, 17_000)]
    assert plans(deployed(tmp_path, QUERY.format(version=2), Past(again, {P0: 30_000, P1: 19_000}))) == [(2, None), (1, 17_000)]
    assert plans(deployed(tmp_path, QUERY.format(version=2), Past(again, {P0: 30_000, P1: 19_001}))) == [(2, None)]
    gone = {5 << 20: 1_000}  # a topic that is no longer read, whose time stands still
    assert plans(deployed(tmp_path, QUERY.format(version=2), Past(again, {P0: 30_000, P1: 19_001, **gone}))) == [(2, None)]
    quiet = Progress(sources=frozenset((P0, P1)), idle=frozenset((P1,)))  # what comes there is late, or of a later time
    assert plans(deployed(tmp_path, QUERY.format(version=2), Past(again, {P0: 30_000, P1: 100}, quiet))) == [(2, None)]
    third = deployed(tmp_path, QUERY.format(version=3), Past(again, {P0: 8_000}))
    assert sorted(plans(third), key=str) == sorted([(3, None), (1, 17_000), (2, -1)], key=str)


def test_a_version_that_comes_back_is_the_running_one_again(tmp_path: Path) -> None:
    first = deployed(tmp_path, QUERY.format(version=1))
    changed = deployed(tmp_path, QUERY.format(version=2), Past(first, {P0: 5_000}))
    back = deployed(tmp_path, QUERY.format(version=1), Past(changed, {P0: 5_000}))
    assert plans(back) == [(1, None)], "it was fed all the while, and tells what the one between began as well"
    later = deployed(tmp_path, QUERY.format(version=2), Past(changed, {P0: 7_000}))
    gone = deployed(tmp_path, QUERY.format(version=2), Past(later, {P0: 40_000}))
    assert plans(deployed(tmp_path, QUERY.format(version=1), Past(gone, {P0: 41_000}))) == [(1, None), (2, -1)], "begins afresh"
    third = deployed(
        tmp_path, QUERY.format(version=3), Past(deployed(tmp_path, QUERY.format(version=2), Past(changed, {P0: 6_000})), {P0: 7_000})
    )
    third = deployed(tmp_path, QUERY.format(version=3), Past(third, {P0: 8_000}))
    assert sorted(plans(third)) == [(1, 16_000), (2, 18_000), (3, None)]
    assert plans(deployed(tmp_path, QUERY.format(version=1), Past(third, {P0: 8_500}))) == [(1, None)], "it tells what both between began"
    assert plans(deployed(tmp_path, QUERY.format(version=2), Past(third, {P0: 8_500}))) == [(2, None), (1, 16_000)], (
        "who ended before goes on"
    )


def test_who_came_later_is_known_whatever_windows_the_versions_have(tmp_path: Path) -> None:
    """Each is fed as long as it drains, and a match is told once: by the version that comes back if that ran before."""

    def text(version: int, within: str) -> str:
        return QUERY.format(version=version).replace("10 s", within)

    for first, second in (("2 h", "10 s"), ("10 s", "2 h")):
        oldest = deployed(tmp_path, text(1, first))
        between = deployed(tmp_path, text(2, second), Past(oldest, {P0: 5_000}))
        between = deployed(tmp_path, text(2, second), Past(between, {P0: 6_000}))
        newest = deployed(tmp_path, text(3, "10 s"), Past(between, {P0: 7_000}))
        newest = deployed(tmp_path, text(3, "10 s"), Past(newest, {P0: 8_000}))
        assert sorted(version for version, _ in plans(newest)) == [1, 2, 3]
        stored = deployment_from_json(newest.to_json(), 1, lambda _: b"")
        assert [version for version, _ in plans(deployed(tmp_path, text(1, first), Past(stored, {P0: 8_500})))] == [1]
        back = deployed(tmp_path, text(2, second), Past(stored, {P0: 8_500}))
        assert [version for version, _ in plans(back)] == [2, 1], "who ended before goes on, whatever its window"


def test_without_drain_the_old_version_is_forgotten(tmp_path: Path) -> None:
    first = deployed(tmp_path, QUERY.format(version=1))
    text = QUERY.format(version=2).replace("on_change: drain\n", "")
    assert plans(deployed(tmp_path, text, Past(first, {P0: 5_000}))) == [(2, None)]


def test_a_query_that_others_read_cannot_drain(tmp_path: Path) -> None:
    reader = "---\nname: reader\nfrom: query:taken-out\nevent: \"SEQ('taken-out' a, 'taken-out' b)\"\nwithin: 1 m\n"
    with pytest.raises(ConfigurationError, match="is read by another query and so cannot drain"):
        deployed(tmp_path, QUERY.format(version=1) + reader)


def test_a_temporal_query_goes_on_until_its_tuples_have_ended_and_left_the_window(tmp_path: Path) -> None:
    """A tuple is in the window for as long as its end is, not its beginning."""
    text = "name: q\nfrom: retail\nselect: [tag_id]\ncoalesce: {duration: 1 h}\nwindow: {range: 10 m, slide: 1 m}\n"
    (plan,) = deployed(tmp_path, text).catalog.plans
    assert drains_for_ms(plan) == (60 + 10 + 1) * 60_000
    (plan,) = deployed(tmp_path, text.replace("1 h", "until-next")).catalog.plans
    assert drains_for_ms(plan) is None
