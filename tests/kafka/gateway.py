"""A door in front of a service: while it is shut, nobody can connect, and who was connected is cut off."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from urllib.parse import urlsplit

from app.local.ports import free_ports


class Gateway:
    """Passes bytes on between a port of its own and a service.

    Args:
        url: of the service.

    Attributes:
        url: of the service as seen through the gateway.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._service = (parts.hostname or "", parts.port or 80)
        (self._port,) = free_ports(1)
        self.url = url.replace(parts.netloc, f"127.0.0.1:{self._port}")
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self.open()

    def open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self._port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._service) as service, selectors.DefaultSelector() as ready:
            pair = {client: service, service: client}
            self._open |= pair.keys()
            for one in pair:
                ready.register(one, selectors.EVENT_READ)
            with contextlib.suppress(OSError):
                while all(self._forwarded(key.fileobj, pair) for key, _ in ready.select()):
                    pass
            self._open -= pair.keys()

    @staticmethod
    def _forwarded(one: socket.socket, pair: dict[socket.socket, socket.socket]) -> bool:
        data = one.recv(65536)
        pair[one].sendall(data)
        return bool(data)
