"""A query that is asked again answers every question as if it were the first one, whatever was asked before."""

import numpy as np
import pytest

from app.asc.layout import ItemLayout
from app.asc.selected import Dispatch
from app.bucket import rematch
from app.bucket.rematch import Rematch
from app.events.batch import EventBatch
from app.files.gathering import parse_events
from app.query.compile import compile_texts
from app.query.resolved.vocabulary import Streams

TEXT = "name: q\nevent: SEQ(A a, B b)\nwhere: '[k]'\nwithin: 10 ms\nstrategy: skip-till-next-match\nreturn: {v: b.v}\n"


def a_question(begin: int) -> tuple[EventBatch, np.ndarray]:
    lines = [f'{{"type": "{kind}", "time": {begin + time}, "k": 1, "v": {time}}}' for kind, time in (("A", 0), ("A", 3), ("B", 5))]
    batch = parse_events("\n".join(lines).encode()).batch
    return batch, np.array([[1], [1], [2]], dtype=np.uint64)


@pytest.fixture
def asked() -> Rematch:
    compiled = compile_texts([("q.yaml", TEXT)], Streams(everything=parse_events(b'{"type": "A", "time": 0, "k": 1, "v": 1}').schema))
    assert not compiled.errors
    catalog = compiled.catalog
    layout = ItemLayout.of_group(catalog, catalog.groups[0])
    return Rematch(0, catalog.plans[0], catalog.groups[0], Dispatch(layout), reach_ms=10)


def times(asked: Rematch, begin: int) -> list[int]:
    return asked(*a_question(begin)).time.tolist()


def test_matches_have_the_events_own_times_whatever_was_asked_before(asked: Rematch) -> None:
    first = times(asked, 1_000)
    assert first
    assert set(first) == {1_005}
    assert times(asked, 1_000) == first, "nothing of the question before is left"
    assert times(asked, 500) == [time - 500 for time in first], "also of an earlier time"


def test_time_begins_anew_before_it_is_too_much_and_after_large_questions(asked: Rematch, monkeypatch: pytest.MonkeyPatch) -> None:
    first = times(asked, 1_000)
    asked._now_ms = (1 << 62) + 1
    assert times(asked, 1_000) == first
    monkeypatch.setattr(rematch, "MOST_EVENTS", 2)
    assert times(asked, 1_000) == first
    assert asked._engine is None, "an engine that was asked about much is not kept"
    assert times(asked, 1_000) == first


def test_an_engine_that_fails_is_not_asked_again(asked: Rematch, monkeypatch: pytest.MonkeyPatch) -> None:
    first = times(asked, 1_000)

    def fail(*_: object) -> None:
        raise ArithmeticError

    with monkeypatch.context() as broken:
        broken.setattr(Rematch, "_fed", fail)
        with pytest.raises(ArithmeticError):
            times(asked, 1_000)
    assert asked._engine is None
    assert times(asked, 1_000) == first
