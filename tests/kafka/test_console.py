"""The console of a really running application, in a real browser: what it shows, and that everybody can read it.

``CEP_CONSOLE_PICTURES=ops/console`` makes the README's pictures.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from PIL import Image

from app.console.condition import LATE_RATIO
from app.console.words import duration
from app.events.batch import Dictionary, EventBatch
from app.local.embedded import Embedded
from app.local.generators import generate
from tests.browser import Browser, browsing
from tests.kafka.application import ROOT, until
from tests.kafka.changing import Changing, Input
from tests.kafka.test_whole_way import START_MS, apply_topics, settings_for
from tests.seen import contrast_faults, structure_faults, width_faults

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3000)]

NAME = "console"
PLANTED = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">&amp;"
"""What somebody sends in a symbol."""
PICTURES = os.environ.get("CEP_CONSOLE_PICTURES")
BOUND_MS = 2000 if PICTURES else 100
"""The lesser one is less than any batch takes, so that is shed whatever the machine is, and late. A picture should show what is usual."""
SPIKE = """
name: volume-spike
title: Volume rises threefold twice, without a dip in between
labels: {severity: high, domain: stocks}
from: stocks
event: SEQ(Quote a, !(Quote n), Quote b, Quote c)
where: "[symbol] AND n.volume >= 200 * a.volume AND b.volume >= 3 * a.volume AND c.volume >= 3 * b.volume AND c.volume >= 80 * a.volume AND c.price >= 1.01 * a.price"
within: 20 s
return: {symbol: c.symbol, low: a.price, high: c.price}
shedding: {shedder: random, latency_bound: BOUND ms}
""".replace("BOUND", str(BOUND_MS))
"""Shed events can make it find what is not so. Its work is a third of what a batch takes at `RATE` and more: where shedding would not shorten batches, nothing is shed."""
STEADY = """
name: steady-price
title: A price that stays for a second
from: stocks
select: [price]
key: [symbol]
coalesce: {max_gap: 0 s, duration: until-next}
valid: ">= 1 s"
window: {range: 10 s, slide: 1 s}
"""
RISES = """
name: two-rises
title: Two rises, whatever is in between
from: stocks
event: SEQ(Quote a, Quote b+, Quote c)
where: "[symbol] AND b[1].price > 1.001 * a.price AND b[i].price > b[i-1].price AND c.price > 1.004 * a.price"
strategy: skip-till-next-match
within: 2 s
return: {symbol: c.symbol, price: c.price}
shedding: {shedder: none, latency_bound: 1 h}
"""
OFF = 'name: not-yet\nenabled: false\nfrom: stocks\nevent: SEQ(Quote a, Quote b)\nwhere: "[symbol]"\nwithin: 1 s\n'
BROKEN = RISES.replace("c.price > 1.004", "c.prize > 1.004")
SLOW_S = 900.0
RATE = 400 if PICTURES else 2000
PAGES = ("/", "/queries/volume-spike/", "/queries/two-rises/", "/queries/steady-price/", "/queries/nobody-knows-me/")


def planted(batch: EventBatch) -> EventBatch:
    """Symbols with foreign text in them, save on pictures."""
    column = batch.columns["symbol"]
    more = b"" if PICTURES else PLANTED.encode()
    entries = [column.dictionary.entry(k) + more for k in range(len(column.dictionary))]
    return replace(batch, columns={**batch.columns, "symbol": replace(column, dictionary=Dictionary.of(entries))})


@dataclass
class Story:
    """The application, the browser, and what was noted on the way."""

    application: Changing
    browser: Browser
    notes: dict[str, Any] = field(default_factory=dict)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.application.port}{path}"

    def told(self, path: str = "/console.json") -> dict[str, Any]:
        return json.loads(self.application.text(path))

    def until(self, condition) -> Any:
        return until(condition, seconds=SLOW_S, pause=1.0, alive=self.application.alive)

    def open(self, path: str, width: int = 1280, scheme: str = "light") -> Browser:
        self.browser.shape(width, phone=width < 500)
        self.browser.prefer(prefers_color_scheme=scheme)
        self.browser.get(self.url(path))
        return self.browser


@pytest.fixture(scope="module")
def story(embedded: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    folder = tmp_path_factory.mktemp(NAME)
    settings = settings_for(NAME, embedded, [])
    settings |= {"watchdog": {"warm_up_batches": 1}, "audit": {"sample": 0.3}}
    settings["streams"]["stocks"] |= {"idle_after": "1 h", "partitions": 2}
    everything = folder / "of-topics"
    everything.mkdir()
    queries = {"volume-spike": SPIKE, "steady-price": STEADY, "two-rises": RISES, "not-yet": OFF}
    for name, text in queries.items():
        (everything / f"{name}.yaml").write_text(text)
    apply_topics({**settings, "queries": {"paths": [str(everything), str(ROOT / "queries" / "price-run.yaml")]}}, folder)
    application = Changing(folder, settings, ROOT / "queries" / "price-run.yaml")
    application.write(**queries)
    stocks = generate("stocks", 1_200_000, seed=6, start_ms=START_MS, rate_per_s=1000.0, batch_rows=500).batches
    with browsing(folder) as browser:
        told = Story(application, browser)
        try:
            application.start()
            told.until(lambda: application.get("/") == 200)
            told.notes["at first"] = application.text("/")
            told.until(lambda: application.get("/readyz") == 200 or application.get("/startupz") == 200)
            with Input(application, "stocks", list(map(planted, stocks))).flowing(RATE):
                told.until(
                    lambda: (
                        sum(one is not None for one in told.told("/queries/volume-spike/console.json")["last_hour"]["arrivals_per_s"]) > 6
                    )
                )
                told.until(lambda: told.told("/queries/volume-spike/console.json")["verdicts"]["records"])
                told.until(lambda: told.told("/queries/two-rises/console.json")["composite_events"]["records"])
                pictures(told)
                yield told
            assert application.stop() == 0
        finally:
            if application.process is not None and application.process.poll() is None:
                application.kill()


def pictures(story: Story) -> None:
    """The README's, where somebody wants them."""
    if not PICTURES:
        return
    folder = ROOT / PICTURES
    folder.mkdir(exist_ok=True)
    story.until(
        lambda: sum(one is not None for one in story.told("/queries/volume-spike/console.json")["last_hour"]["arrivals_per_s"]) > 40
    )
    for name, path, width, height, scheme in (
        ("overview", "/", 1200, 760, "light"),
        ("query", "/queries/volume-spike/", 1200, 1250, "dark"),
        ("phone", "/", 360, 760, "light"),
    ):
        story.browser.prefer(prefers_color_scheme=scheme)
        story.browser.shape(width, height, phone=width < 500)
        story.browser.get(story.url(path))
        Image.open(io.BytesIO(story.browser.picture())).convert("RGB").quantize(192).save(folder / f"{name}.png", optimize=True)


def test_a_page_is_served_before_anything_runs(story):
    assert "Not ready" in story.notes["at first"]


@pytest.mark.parametrize("width", [1280, 768, 360, 320])
@pytest.mark.parametrize("path", PAGES)
def test_no_page_scrolls_sideways(story, path, width):
    browser = story.open(path, width)
    assert browser.run("return innerWidth") == width
    assert width_faults(browser) == []
    browser.run("for (const one of document.querySelectorAll('details')) one.open = true;")
    assert width_faults(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES[:4])
def test_everything_can_be_told_from_what_is_behind_it(story, path, scheme):
    browser = story.open(path, scheme=scheme)
    dark = browser.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).every((one) => one < 80)")
    assert dark == (scheme == "dark")
    assert contrast_faults(browser) == []


@pytest.mark.parametrize("path", PAGES)
def test_pages_can_be_read_out(story, path):
    assert structure_faults(story.open(path)) == []


def test_the_overview_shows_what_json_tells(story):
    story.until(lambda: any(one["latency"]["p95_ms"] for one in story.told()["queries"] if one["query"] == "volume-spike"))
    browser = story.open("/?still=1")
    told = story.told()
    shown = browser.run("return [...document.querySelectorAll('.queries th[scope=row] a')].map((one) => one.textContent)")
    assert sorted(shown) == sorted(one["query"] for one in told["queries"])
    assert {"volume-spike", "two-rises", "steady-price", "price-run", "not-yet"} == set(shown)
    spike = next(one for one in told["queries"] if one["query"] == "volume-spike")
    assert any(story.told("/queries/volume-spike/console.json")["last_hour"]["drop_ratio"])
    assert spike["shedding"] == {"shedder": "random", "what": "events", "where": "at the ingress"}
    assert spike["latency"]["bound_ms"] == BOUND_MS
    late = spike["latency"]["late"] > LATE_RATIO * spike["latency"]["composite_events"]
    assert late or PICTURES
    assert spike["condition"]["word"] == told["condition"]["word"]
    assert not late or spike["condition"]["word"] == "bound broken"
    assert 0 <= spike["recall"][0] <= spike["recall"][1] <= spike["recall"][2] <= 1
    assert browser.run("return document.querySelector('#headline').textContent").lower() == (
        "latency bound broken" if late else "shedding load, healthy"
    )
    row = browser.run(
        "return [...document.querySelectorAll('.queries tbody tr')].map((e) => e.innerText).find((t) => t.includes('volume-spike'))"
    )
    for text in (spike["condition"]["word"], "events, at the ingress", f"of {duration(BOUND_MS)}"):
        assert text in row
    assert told["consumed_per_s"] > 0
    assert told["owners"] >= 1


def test_a_querys_page_shows_its_hour_its_automaton_what_it_found_and_what_became_of_it(story):
    browser = story.open("/queries/volume-spike/?still=1")
    text = browser.run("return document.querySelector('main').innerText")
    for heading in (
        "Detection latency",
        "Input rate",
        "Drop ratio",
        "Recent composite events",
        "Sequence",
        "Verdicts",
        "Watchdog",
        "About",
    ):
        assert heading in text
    assert browser.run("return document.querySelectorAll('#plot-latency path.line').length") >= 2, "latency, and the bound"
    assert browser.run("return document.querySelectorAll('svg.automaton rect.node').length") == 4, "three positive items: four states"
    assert "no Quote n in between" in browser.run("return document.querySelector('#states').textContent")
    found = story.told("/queries/volume-spike/console.json")["composite_events"]["records"][0]
    assert [one["variable"] for one in found["events"]] == ["a", "b", "c"]
    assert all(one["topic"] == f"{NAME}.stocks" and one["offset"] >= 0 for one in found["events"])
    words = browser.run("return [...document.querySelectorAll('[aria-labelledby=verdicts] .verdict')].map((one) => one.textContent)")
    assert words, story.told("/queries/volume-spike/console.json")["verdicts"]
    assert set(words) <= {"confirmed", "false positive", "unverifiable"}
    decided = story.told("/queries/volume-spike/console.json")["decisions"]
    assert "SHEDDING_BEGINS" in {one["reason"] for one in decided} or len(decided) == 20
    assert decided[0]["reason"].replace("_", " ").lower() in text


def test_automata_of_closures_loop_and_temporal_queries_show_their_steps(story):
    looping = story.told("/queries/two-rises/console.json")["automaton"]
    assert looping["kind"] == "automaton"
    assert any(edge["to"] == state["state"] for state in looping["states"] for edge in state["edges"])
    assert story.told("/queries/steady-price/console.json")["automaton"]["kind"] == "temporal"


@pytest.mark.skipif(bool(PICTURES), reason="there is none on pictures")
def test_foreign_text_stays_text(story):
    browser = story.open("/queries/two-rises/?still=1")
    shown = browser.run("return [...document.querySelectorAll('.fields .value')].map((one) => one.textContent)")
    assert any(PLANTED in one for one in shown)
    assert browser.run("return document.querySelectorAll('main script, main img').length") == 0
    assert browser.run("return document.title") != "owned"


def test_the_policy_forbids_what_is_inline_and_nothing_of_ours_breaks_it(story):
    browser = story.open("/")
    browser.complaints()
    for path in PAGES[:4]:
        story.open(path)
    assert [one for one in browser.complaints() if "favicon" not in one] == []
    browser.run("const one = document.createElement('script'); one.textContent = \"document.title = 'owned'\"; document.body.append(one);")
    assert browser.run("return document.title") != "owned"
    assert any("Content Security Policy" in one for one in browser.complaints())


def test_keys_alone_lead_to_a_query(story):
    browser = story.open("/?still=1")
    said = []
    for _ in range(30):
        browser.press("\ue004")
        said.append(browser.run("return document.activeElement.textContent.trim()"))
        assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") != "none", f"nobody sees where {said[-1]} is"
        if said[-1] == "volume-spike":
            break
    assert said[0] == "Skip to content"
    assert {"Overview", "JSON", "Metrics"} <= set(said)
    browser.press("\ue007")
    browser.until("return location.pathname === '/queries/volume-spike/' && document.readyState === 'complete'")


def test_the_page_renews_itself_and_keeps_what_is_open_and_where_one_is(story):
    browser = story.open("/queries/two-rises/")
    browser.until("return document.getElementById('pause') && !document.getElementById('pause').hidden")
    browser.run(
        "document.getElementById('states').open = true; document.querySelector('#states summary').focus(); window.old = document.querySelector('main section')"
    )
    browser.until("return !document.contains(window.old)")
    assert browser.run("return document.getElementById('states').open")
    assert browser.run("return document.activeElement === document.querySelector('#states summary')")
    browser.run("document.getElementById('pause').click()")
    assert browser.run("return document.getElementById('pause').textContent") == "Resume"


def test_without_scripts_the_page_says_the_same_and_renews_itself(story):
    story.browser.scripts(on=False)
    try:
        story.open("/?still=1")
        story.open("/")
    finally:
        story.browser.scripts(on=True)
    text = story.application.text("/")
    assert re.search(r'<noscript><meta http-equiv="refresh" content="\d+"></noscript>', text)
    assert "http-equiv" not in story.application.text("/?still=1"), "who wants to read in peace can"
    for query in ("volume-spike", "two-rises"):
        assert f'href="/queries/{query}/"' in text


def test_nothing_comes_from_elsewhere(story):
    browser = story.open("/queries/volume-spike/")
    names = browser.run("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert {name.rsplit("/", 1)[1] for name in names} >= {"console.css", "console.js"}
    assert all(name.startswith(story.url("/")) for name in names)


def test_a_file_with_an_error_shows_where_it_is(story):
    application = story.application
    application.after(lambda: application.write(**{"two-rises": BROKEN}), "broken")
    story.until(lambda: story.told()["last_reading"]["outcome"] == "broken")
    browser = story.open("/?still=1")
    assert "Reload failed" in browser.run("return document.title") or story.told()["condition"]["word"] == "bound broken"
    assert "the query files have errors: what ran before goes on" in browser.run("return document.querySelector('.state').innerText")
    shown = browser.run("return document.querySelector('.finding').innerText")
    line, text = next((number, text) for number, text in enumerate(BROKEN.splitlines(), 1) if "c.prize" in text)
    assert f"two-rises.yaml:{line}:{text.index('prize') + 1}" in shown
    assert "prize" in shown
    assert "^" in shown
    assert contrast_faults(browser) == []
    assert structure_faults(browser) == []
    assert width_faults(story.open("/", 320)) == []
    application.after(lambda: application.write(**{"two-rises": RISES}), "unchanged")
    story.until(lambda: story.told()["last_reading"]["findings"] == [])  # answers may be a second old
