"""The whole language through local Spark: closures, contiguity, windows, timeouts and queries over queries, identity for identity as `cep replay`."""

from app.local.generators import generate
from tests.spark.recorded import write_parquet
from tests.spark.test_recorded_topics import START_MS, build_world, emitted, run

QUERIES = {
    "rising": """\
from: stocks
event: SEQ(Quote a, Quote+ b[])
where: "[symbol] AND b[first].price > a.price AND b[i].price > b[i-1].price"
within: 5 s
strategy: skip-till-next-match
on_timeout: emit
return: {symbol: a.symbol, prices: b.price, last: "b[last].price", steps: count(b)}
""",
    "neighbours": """\
from: stocks
event: SEQ(Quote a, Quote b)
where: b.price > 1.5 * a.price
within: 10 s
strategy: strict-contiguity
return: {first: a.symbol, second: b.symbol}
""",
    "falling-twice": """\
from: stocks
event: SEQ(Quote a, Quote b, Quote c)
where: "[symbol] AND b.price < a.price AND c.price < b.price"
within: 4 s
strategy: partition-contiguity
after: skip-past-last-event
return: {symbol: a.symbol, lost: a.price - c.price}
""",
    "busy-minute": """\
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND a.volume > 900 AND b.volume > 900"
window: {size: 300 events, slide: 100 events}
return: {symbol: a.symbol}
""",
    "after-a-jump": """\
from: stocks
event: SEQ(Quote a, Quote b)
where: "[symbol] AND b.price > a.price"
window: {size: 40 events, open: "Quote q WHERE q.volume > 9500"}
strategy: skip-till-next-match
return: {symbol: a.symbol}
""",
    "rose-again": """\
from: ["query:rising", stocks]
event: SEQ(rising r, Quote q)
where: "[symbol] AND q.price > r.last AND r.steps >= 3"
within: 3 s
return: {symbol: r.symbol, steps: r.steps}
""",
    "rose-and-fell": """\
from: ["query:rose-again", "query:falling-twice"]
event: "SEQ('rose-again' r, 'falling-twice' f)"
where: "[symbol]"
within: 2 s
""",
}


def test_recorded_topics_give_the_composite_events_of_replay_for_the_whole_language(spark, tmp_path):
    paths = []
    for name, text in QUERIES.items():
        paths.append(str(tmp_path / name))
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n{text}")
    events = {"stocks": ("symbol", generate("stocks", 2000, seed=5, start_ms=START_MS, rate_per_s=50.0).batches)}
    folder, records, expected = build_world(tmp_path, events, tuple(paths))
    topics, parts = folder / "topics-whole", folder / "all"
    write_parquet(parts, records, 5)
    topics.mkdir()
    for number, part in enumerate(sorted(parts.iterdir())):
        part.rename(topics / part.name)
        if number in (1, 4):  # a restart in between
            run(spark, folder, "whole", 3)
    found = emitted(folder, "whole")
    assert len(found) == len(set(found)) > 100, "nothing twice"
    assert set(found) <= set(expected)
    # without an end of input what waits for later events is missing; the skipping query waits a window longer, and so does who reads it
    passed = min(max(r["time"] for r in records if r["partition"] == partition) for partition in range(3)) - 2000
    late = {(one["query"], one["time"] - passed) for one in map(expected.get, set(expected) - set(found))}
    waiting = {"falling-twice": 4000, "rose-and-fell": 4000}
    assert {query for query, ahead in late if ahead < -waiting.get(query, 0)} == set()
    assert {expected[one]["query"] for one in found} == set(QUERIES)
    assert any(expected[one].get("kind") == "timeout" for one in found)
