"""Which address shows what: pages from templates, the same as JSON, and two files beside them. Everything is GET, nothing needs a token, nothing changes anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from app import __version__
from app.config.settings import Settings
from app.console.figures import Figures
from app.console.recent import Recent
from app.console.views import of_overview, of_query
from app.console.words import FILTERS
from app.control.plane import ControlPlane, clock_ms
from app.control.server.pages import Page
from app.delivery.security import consumer_options
from app.delivery.tail import Tails
from app.events.registry import Registry, RegistrySettings

FOLDER = Path(__file__).parent
AGAIN_S = 1.0
"""A page is made again no sooner, however many people look."""
MOST_KEPT = 64
MOST_PAGES = 1000
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (("Content-Security-Policy", POLICY),)
"""Beside those that the server gives every answer."""
FILES = {"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Asked:
    """An address, without what means nothing here.

    Attributes:
        page: of the list of queries.
        still: whether the page is to stay as it is.
    """

    path: str
    page: int = 1
    still: bool = False


class Site:
    """The console. `page` goes into `app.control.plane.ControlPlane.pages`.

    Args:
        figures: what is shown.
        application: its name.
    """

    def __init__(self, figures: Figures, application: str) -> None:
        self._figures = figures
        self._lock = threading.Lock()
        self._kept: dict[Asked, tuple[float, Page]] = {}
        self._files = {f"/{name}": Page((FOLDER / "static" / name).read_bytes(), kind, 200, HEADERS) for name, kind in FILES.items()}
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._templates.filters.update(FILTERS)
        self._templates.globals.update(application=application, version=__version__)

    def page(self, target: str) -> Page | None:
        """What is at an address; None where nothing is.

        Args:
            target: path and query string, as a browser sends them.
        """
        url = urlsplit(target)
        if url.path in self._files:
            return self._files[url.path]
        words = {name: values[-1] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        number = words.get("page", "")[:6]
        asked = Asked(url.path, min(int(number), MOST_PAGES) if number.isdecimal() else 1, "still" in words)
        answer = self._answer(asked)
        if answer is None:
            return None
        with self._lock:  # one at a time: who looks must not take the processor from the stream
            known = self._kept.get(asked)
            if known is not None and time.monotonic() - known[0] < AGAIN_S:
                return known[1]
            page = answer()
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[asked] = time.monotonic(), page
            return page

    def _answer(self, asked: Asked) -> Callable[[], Page] | None:
        match asked.path.split("/"):
            case ["", ""]:
                return lambda: self._overview(asked)
            case ["", "console.json"]:
                return lambda: _json(self._figures.overview())
            case ["", "queries", name, ""]:
                return lambda: self._query(unquote(name), asked)
            case ["", "queries", name, "console.json"]:
                return lambda: _json(self._figures.query(unquote(name)))
        return None

    def _overview(self, asked: Asked) -> Page:
        return self._html("overview.html", asked, **of_overview(self._figures, asked.page))

    def _query(self, name: str, asked: Asked) -> Page:
        told = self._figures.query(name)
        if told is None:
            return self._html("unknown.html", asked, status=404, name=name)
        return self._html("query.html", asked, **of_query(told))

    def _html(self, template: str, asked: Asked, status: int = 200, **values: Any) -> Page:
        text = self._templates.get_template(template).render(still=asked.still, **values)
        return Page(text.encode(), "text/html; charset=utf-8", status, HEADERS)


def _json(value: object) -> Page:
    if value is None:
        return Page(b'{"error": "there is no such query"}\n', "application/json", 404, HEADERS)
    return Page(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + b"\n", "application/json", 200, HEADERS)


def site_of(plane: ControlPlane, settings: Settings, registry: RegistrySettings) -> Site:
    """The console of a driver.

    Args:
        plane: that is shown.
        settings: of the application.
        registry: asked for the schemas of what stands on output topics.
    """
    tails = Tails(lambda: consumer_options(settings.kafka))
    return Site(Figures(plane, settings, Recent(tails, Registry(registry).schema), clock_ms), settings.application)
