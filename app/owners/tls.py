"""Encrypted connections between driver, tasks and owners: TLS 1.3 in both directions, by a key that everybody makes of the application's token.

There is no authority and nothing to distribute: whoever knows the token makes the same key and the same certificate of it (Ed25519 signs without chance),
and trusts that certificate and no other. Session keys are ephemeral, so what was recorded stays secret if the token becomes known later.
"""

from __future__ import annotations

import datetime as dt
import os
import select
import socket
import ssl
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from app.config.secret_files import derived

SIZE_BYTES = 8
JOINED_BYTES = 16 << 10
"""A message up to here leaves in one piece with its size: one record and one segment instead of two."""
LARGEST_PROOF = 4 << 10


def encrypted(connection: socket.socket, token: bytes, handshake_s: float, *, server: bool) -> ssl.SSLSocket:
    """The connection, with a handshake behind it.

    Raises:
        OSError: the other end does not know the token, or takes too long.
    """
    accepting, asking = _contexts(token)
    connection.settimeout(handshake_s)
    wrapped = (accepting if server else asking).wrap_socket(connection, server_side=server)
    wrapped.settimeout(None)
    return wrapped


@lru_cache(maxsize=4)
def _contexts(token: bytes) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    certificate, key = _identity(token)
    return _context(ssl.PROTOCOL_TLS_SERVER, certificate, key), _context(ssl.PROTOCOL_TLS_CLIENT, certificate, key)


def _context(protocol: int, certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED  # owners are found by address; the key says whose they are
    context.load_verify_locations(cadata=certificate.decode())
    file = os.memfd_create("cep-identity")  # OpenSSL's Python side takes files only; this one has no name
    try:
        os.write(file, certificate + key)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context


def _identity(token: bytes) -> tuple[bytes, bytes]:
    """Certificate and key, as PEM; the same for the same token."""
    key = Ed25519PrivateKey.from_private_bytes(derived(token.decode(), "cep: connections of owners"))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cep")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    made = made.not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC)).not_valid_after(dt.datetime(9999, 12, 31, tzinfo=dt.UTC))
    certificate = made.sign(key, None).public_bytes(Encoding.PEM)
    return certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class TlsConnection:
    """Messages over TLS, as `multiprocessing.connection.Connection` has them over plain sockets. Not for several threads at once."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._socket = connection
        self.closed = False

    def fileno(self) -> int:
        """Of the socket."""
        return self._socket.fileno()

    def send_bytes(self, message: bytes | bytearray | memoryview) -> None:
        """Sends a message.

        Raises:
            OSError: the other end is gone.
        """
        view = memoryview(message).cast("B")
        size = len(view).to_bytes(SIZE_BYTES, "big")
        if len(view) <= JOINED_BYTES:
            self._socket.sendall(size + view)
        else:
            self._socket.sendall(size)
            self._socket.sendall(view)

    def recv_bytes(self, maxlength: int | None = None) -> bytes | bytearray:
        """The next message.

        Raises:
            EOFError: the other end has ended the connection.
            OSError: it is gone, or the message is longer than that.
        """
        size = int.from_bytes(self._received(SIZE_BYTES), "big")
        if maxlength is not None and size > maxlength:
            raise OSError("the message is too long")
        received = self._received(size)
        return bytes(received) if size <= LARGEST_PROOF else received

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Whether there is something to read, or the end."""
        return self._socket.pending() > 0 or bool(select.select([self._socket], [], [], timeout_s)[0])

    def close(self) -> None:
        """Ends the connection."""
        self.closed = True
        self._socket.close()

    def _received(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, got = memoryview(buffer), 0
        while got < size:
            count = self._socket.recv_into(view[got:])
            if count == 0:
                raise EOFError
            got += count
        return buffer
