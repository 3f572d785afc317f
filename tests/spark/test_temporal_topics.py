"""Temporal queries through local Spark: the windows that the watermark has passed are those of `cep replay`, identity for identity."""

from app.local.generators import generate
from tests.spark.recorded import write_parquet
from tests.spark.test_recorded_topics import START_MS, build_world, emitted, run

IN_PLACE = """\
name: in-place
from: retail
select: [shelf_id]
key: [tag_id]
coalesce: {duration: until-next, max_gap: 3 s}
valid: ">= 2 s"
window: {range: 10 s, slide: 1 s}
"""
ROUGHLY = """\
name: in-place-roughly
from: retail
select: [shelf_id]
key: [shelf_id]
coalesce: {duration: until-next}
window: {range: 10 s, slide: 1 s}
shedding: {shedder: cals, memory: 3 tuples}
"""
LAST_QUOTES = """\
name: last-quotes
from: stocks
select: [symbol]
where: volume > 100
coalesce: {duration: 1 s}
window: {range: 300 events, slide: 100 events}
"""


def test_recorded_topics_give_the_coalesced_tuples_of_replay(spark, tmp_path):
    paths = []
    for text in (IN_PLACE, ROUGHLY, LAST_QUOTES):
        paths.append(str(tmp_path / text.split()[1]))
        (tmp_path / f"{text.split()[1]}.yaml").write_text(text)
    kinds = {"retail": ("tag_id", "retail"), "stocks": ("symbol", "stocks")}
    events = {t: (key, generate(kind, 2000, seed=5, start_ms=START_MS, rate_per_s=50.0).batches) for t, (key, kind) in kinds.items()}
    folder, records, expected = build_world(tmp_path, events, tuple(paths))
    topics, parts = folder / "topics-temporal", folder / "all"
    write_parquet(parts, records, 5)
    topics.mkdir()
    for number, part in enumerate(sorted(parts.iterdir())):
        part.rename(topics / part.name)
        if number in (1, 4):  # a restart in between
            run(spark, folder, "temporal", 2)
    found = emitted(folder, "temporal")
    assert len(found) == len(set(found)) > 50, "nothing twice"
    assert sum(expected[one]["query"] == "in-place-roughly" for one in found) > 10, "the same tuples stay, over restarts too"
    assert set(found) <= set(expected)
    passed = {t: min(max(r["time"] for r in records if r["topic"] == t and r["partition"] == p) for p in range(3)) for t in kinds}
    missing = [expected[one] for one in set(expected) - set(found)]
    # without an end of input the windows at the end wait for later events
    assert all(one["time"] >= passed["retail"] for one in missing if one["query"].startswith("in-place"))
    assert all(one["time"] >= passed["stocks"] - 2000 for one in missing if one["query"] == "last-quotes")
