"""What the console's script does with whatever the driver answers, in a real browser, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.control.server.pages import Page
from tests.browser import Browser, browsing
from tests.unit.test_console import PLAN, Console

pytestmark = [pytest.mark.slow]

SECTION = "window.old = document.querySelector('main section')"
RENEWED = "return !document.contains(window.old)"
STALE = "return document.documentElement.classList.contains('stale')"
FRESH = "return !document.documentElement.classList.contains('stale')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as started:
        yield started


class Answers(Console):
    """A console that can be made to fail, or not to answer."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.released = threading.Event()
        self.way = "well"
        plane, script = self.world.plane, self.site._files["/console.js"]
        hurried = script.body.replace(b"EVERY_MS = 5000", b"EVERY_MS = 100").replace(b"PATIENCE_MS = 10000", b"PATIENCE_MS = 500")
        assert hurried.count(b" 100;") == hurried.count(b" 500;") == 1
        self.site._files["/console.js"] = replace(script, body=hurried)
        plane.pages = self.page

    def page(self, target: str) -> Page | None:
        match self.way:
            case "fails":
                raise RuntimeError("no page today")
            case "hangs":
                self.released.wait(60)
            case "proxy fails":
                return Page(b'<main id="main">Bad gateway</main>', status=502)
            case "elsewhere":
                return Page(b"<p>Please log in.")
        self.site._kept.clear()
        return self.site.page(target)

    def shown(self, browser: Browser, path: str = "/queries/q/") -> None:
        browser.get(f"http://127.0.0.1:{self.world.plane.port}{path}")
        browser.run(SECTION)
        browser.until(RENEWED)
        assert browser.run(FRESH)


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[Answers]:
    made = Answers(tmp_path)
    yield made
    made.released.set()
    made.world.plane.close()


@pytest.mark.parametrize("way", ["fails", "proxy fails", "hangs", "elsewhere"])
def test_a_page_that_cannot_be_renewed_says_that_it_is_old_until_it_can(answers, browser, way):
    answers.shown(browser)
    answers.way = way
    browser.until(STALE)
    assert browser.run("return document.getElementById('told').textContent") == "No answer"
    assert "q" in browser.run("return document.getElementById('headline').parentElement.textContent"), "what was known stays"
    answers.way = "well"
    answers.released.set()
    browser.run(SECTION)
    browser.until(RENEWED)
    assert browser.run(FRESH)


def test_the_page_of_a_query_that_is_gone_says_so(answers, browser):
    answers.shown(browser)
    answers.open(PLAN)
    browser.until("return document.getElementById('headline').textContent === 'No such query'")
    assert browser.run(FRESH)
    assert "No such query" in browser.run("return document.title")
