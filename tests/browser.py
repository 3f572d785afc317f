"""A headless Chromium for tests, driven through chromedriver: WebDriver is HTTP and JSON, so that nothing but the two programs is needed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.local.ports import free_ports

ARGUMENTS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
]
PATIENCE_S = 180.0
"""CI machines are busy."""


class Browser:
    """A session; `get` waits for the page."""

    def __init__(self, address: str, session: str) -> None:
        self._base = f"{address}/session/{session}"

    def get(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command: str, **parameters: Any) -> Any:
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def until(self, script: str, *arguments: Any) -> Any:
        """What a script returns once that is something."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := self.run(script, *arguments)):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.1)
        return found

    def press(self, key: str) -> None:
        """One key, as from a keyboard: ``\\ue004`` is Tab, ``\\ue007`` Enter."""
        keys = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": keys}]})

    def shape(self, width: int, height: int = 900, *, phone: bool = False) -> None:
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def prefer(self, **features: str) -> None:
        """As ``prefers_color_scheme="dark"``."""
        told = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", media="screen", features=told)

    def scripts(self, *, on: bool) -> None:
        """Whether pages may run theirs."""
        self.devtools("Emulation.setScriptExecutionDisabled", value=not on)

    def picture(self, *, whole: bool = False) -> bytes:
        """The page as PNG: what fits into the window, or all of it."""
        return base64.b64decode(self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def complaints(self) -> list[str]:
        """What the console of the browser says: violations of the policy, scripts that failed."""
        return [one["message"] for one in self._ask("POST", "/se/log", {"type": "browser"})]

    def quit(self) -> None:
        with contextlib.suppress(OSError):
            self._ask("DELETE", "", None)

    def _ask(self, method: str, path: str, value: Any) -> Any:
        return asked(method, self._base + path, value)


def asked(method: str, url: str, value: Any) -> Any:
    body = None if value is None else json.dumps(value).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(json.loads(error.read())["value"]["message"]) from error


@contextlib.contextmanager
def browsing(folder: Path) -> Iterator[Browser]:
    """A browser with a profile of its own; the test is skipped where there is none."""
    driver, chromium = shutil.which("chromedriver"), os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if driver is None or chromium is None:
        pytest.skip("needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    with (folder / "chromedriver.log").open("wb") as log:
        process = subprocess.Popen([driver, f"--port={port}"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not _ready(address):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "chromedriver.log").read_text()
            time.sleep(0.1)
        options = {"binary": chromium, "args": [*ARGUMENTS, f"--user-data-dir={folder / 'profile'}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = asked("POST", f"{address}/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        browser = Browser(address, session)
        try:
            yield browser
        finally:
            browser.quit()
    finally:
        process.terminate()
        process.wait(30)


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/status", timeout=5) as answer:
            return bool(json.loads(answer.read())["value"]["ready"])
    except OSError:
        return False
