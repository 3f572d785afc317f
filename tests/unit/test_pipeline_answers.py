"""A restart needs no registry for what the checkpoint holds of its answers."""

import pytest

from app.errors import DependencyError
from app.events.avro import parse_schema
from app.events.registry import Registered
from app.pipeline.answers import FILE, FORMAT, KIND, PROBE_S, RememberedRegistry
from app.storage.frames import framed

TEXT = '{"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]}'
NEWER = TEXT.replace('"x"', '"y"')


class FakeRegistry:
    """The real one is stopped in tests/kafka."""

    def __init__(self, **texts):
        self.texts, self.up, self.asked = texts, True, 0

    def _ask(self):
        self.asked += 1
        if not self.up:
            raise DependencyError("down")

    def latest(self, subject):
        self._ask()
        text = self.texts.get(subject)
        return None if text is None else Registered(4, 2, text, parse_schema(text), "guid")

    def register(self, subject, text):
        self._ask()
        return len(subject)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def registry():
    return FakeRegistry(a=TEXT)


def remembered(folder, registry, clock=None, failed=lambda: None, url="http://one"):
    return RememberedRegistry(registry, url, str(folder), failed, clock or Clock())


def learn(folder, registry):
    first = remembered(folder, registry)
    first.latest("a")
    first.register("out", TEXT)
    first.save()


def test_what_was_answered_is_answered_again_while_the_registry_is_away(tmp_path, registry):
    learn(tmp_path, registry)
    registry.up, failures = False, []
    restarted = remembered(tmp_path, registry, failed=lambda: failures.append(1))
    held = restarted.latest("a")
    assert (held.schema_id, held.version, held.text, held.guid) == (4, 2, TEXT, "guid")
    assert restarted.register("out", TEXT) == 3
    assert len(failures) == registry.asked - 2 == 1, "a registry that is away is not asked for each of a thousand schemas"


def test_what_is_not_held_is_waited_for(tmp_path, registry):
    learn(tmp_path, registry)
    registry.up = False
    restarted = remembered(tmp_path, registry)
    for question in (lambda: restarted.latest("b"), lambda: restarted.register("out", NEWER), lambda: restarted.register("other", TEXT)):
        with pytest.raises(DependencyError):
            question()
    registry.up = True
    assert restarted.register("out", NEWER) == 3


def test_a_registry_that_answers_counts_more_than_the_memory(tmp_path, registry):
    learn(tmp_path, registry)
    clock = Clock()
    restarted = remembered(tmp_path, registry, clock)
    registry.up = False
    assert restarted.latest("a").text == TEXT
    registry.up, registry.texts["a"] = True, NEWER
    clock.now += PROBE_S
    assert restarted.latest("a").text == NEWER
    restarted.save()
    registry.up = False
    assert remembered(tmp_path, registry).latest("a").text == NEWER


def test_a_subject_that_is_gone_is_gone(tmp_path, registry):
    learn(tmp_path, registry)
    registry.texts.clear()
    assert remembered(tmp_path, registry).latest("a") is None


@pytest.mark.parametrize("damage", [b"", b"{", b"".join(framed(KIND, FORMAT, [b"[]"])), b"".join(framed(KIND, FORMAT + 1, [b"{}"]))])
def test_a_damaged_memory_is_none(tmp_path, registry, damage):
    learn(tmp_path, registry)
    (tmp_path / FILE).write_bytes(damage)
    registry.up = False
    with pytest.raises(DependencyError):
        remembered(tmp_path, registry).latest("a")


def test_another_registrys_answers_count_for_nothing(tmp_path, registry):
    learn(tmp_path, registry)
    registry.up = False
    with pytest.raises(DependencyError):
        remembered(tmp_path, registry, url="http://two").latest("a")


def test_nothing_is_written_while_nothing_is_new(tmp_path, registry):
    learn(tmp_path, registry)
    assert (tmp_path / FILE).exists()
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).write_text("")
    again = remembered(tmp_path, registry)
    again.save()
    assert (tmp_path / FILE).read_text() == ""
