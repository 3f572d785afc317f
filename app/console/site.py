"""Which address shows what: pages from templates, the same as JSON, and two files beside them. Everything is GET, nothing needs a token, nothing changes anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
from app.control.pages import Page
from app.control.plane import ControlPlane, clock_ms
from app.delivery.security import consumer_options
from app.delivery.tail import Tails
from app.events.registry import Registry, RegistrySettings

FOLDER = Path(__file__).parent
AGAIN_S = 1.0
"""A page is made again no sooner, however many people look."""
MOST_KEPT = 64
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
FILES = {"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8"}


class Site:
    """The console. `page` goes into `app.control.plane.ControlPlane.pages`.

    Args:
        figures: what is shown.
        application: its name.
    """

    def __init__(self, figures: Figures, application: str) -> None:
        self._figures = figures
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, Page | None]] = {}
        self._files = {f"/{name}": Page((FOLDER / "static" / name).read_bytes(), kind, 200, HEADERS) for name, kind in FILES.items()}
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
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
        answer = self._answer(url.path, {name: values[-1] for name, values in parse_qs(url.query).items()})
        if answer is None:
            return None
        key = f"{url.path}?{url.query}"
        with self._lock:  # one at a time: who looks must not take the processor from the stream
            made_s, page = self._kept.get(key, (0.0, None))
            if not made_s or time.monotonic() - made_s >= AGAIN_S:
                page = answer()
                if len(self._kept) >= MOST_KEPT:
                    self._kept.clear()
                self._kept[key] = time.monotonic(), page
            return page

    def _answer(self, path: str, asked: dict[str, str]) -> Callable[[], Page | None] | None:
        routes: dict[str, Callable[[], Page | None]] = {
            "/": lambda: self._overview(asked),
            "/console.json": lambda: _json(self._figures.overview()),
        }
        if path in routes:
            return routes[path]
        match path.split("/"):
            case ["", "queries", name, ""]:
                return lambda: self._query(unquote(name), asked)
            case ["", "queries", name, "console.json"]:
                return lambda: _json(self._figures.query(unquote(name)))
        return None

    def _overview(self, asked: dict[str, str]) -> Page:
        shown = of_overview(self._figures, int(asked["page"]) if asked.get("page", "").isdecimal() else 1)
        return self._html("overview.html", asked, **shown)

    def _query(self, name: str, asked: dict[str, str]) -> Page:
        told = self._figures.query(name)
        if told is None:
            return self._html("unknown.html", asked, status=404, name=name)
        return self._html("query.html", asked, **of_query(told))

    def _html(self, template: str, asked: dict[str, str], status: int = 200, **values: Any) -> Page:
        text = self._templates.get_template(template).render(still="still" in asked, **values)
        return Page(text.encode(), "text/html; charset=utf-8", status, HEADERS)


def _json(value: object) -> Page | None:
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
