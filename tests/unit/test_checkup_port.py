"""`cep doctor` beside a running application: whose port it is."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from app.config.settings import Settings
from app.pipeline.checkup.machine import port


@contextmanager
def answering(text: bytes) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(("text", "state"), [(b"livez ok\n", "ok"), (b"a loop is silent\nlivez failed\n", "ok"), (b"hello\n", "failed")])
def test_the_port_of_an_application_whose_checkpoint_is_in_a_bucket_is_its_own(text: bytes, state: str) -> None:
    """No lock can be seen there, so the port is asked."""
    with answering(text) as number:
        settings = Settings(checkpoint={"path": "s3a://bucket/x"}, http={"host": "127.0.0.1", "port": number})
        assert {check.state for check in port(settings)} == {state}
