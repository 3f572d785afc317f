"""Who may do what at a port: what it shows at all, who may read, who may change something, and whether it speaks TLS."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from app.config.secret_files import mark_of, read_secret
from app.config.settings import Control
from app.control.server.server_tls import ServerTls
from app.errors import ConfigurationError

PROBES = frozenset({"/livez", "/readyz", "/startupz", "/metrics"})
"""What a port of probes and metrics shows; it takes nothing."""


def _no_token() -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Door:
    """A port's. The default is open for reading, and lets nobody change anything.

    Attributes:
        probes_only: shows `PROBES` and nothing else.
        token: what people show; None: there is none.
        read_with_token: whether those who only read must show it as well; probes need not.
        tls: where the port speaks TLS.
    """

    probes_only: bool = False
    token: Callable[[], str | None] = _no_token
    read_with_token: bool = False
    tls: ServerTls | None = None

    def may_change(self, authorization: str) -> bool:
        """Whether this header shows the token. Browsers send what they were once told of their own accord, to whatever page asks them to, so that does not count here."""
        scheme, _, shown = authorization.partition(" ")
        return scheme == "Bearer" and self._is_token(shown)

    def may_read(self, authorization: str, path: str) -> bool:
        """Whether this may be shown to whoever sends this header, as a tool (``Bearer``) or as a browser (``Basic``, the token as the password)."""
        if not self.read_with_token or path in PROBES or self.may_change(authorization):
            return True
        scheme, _, shown = authorization.partition(" ")
        if scheme != "Basic":
            return False
        try:
            _, _, password = base64.b64decode(shown, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return False
        return self._is_token(password)

    def _is_token(self, shown: str) -> bool:
        token = self.token()
        return token is not None and hmac.compare_digest(shown.encode(), token.encode())


class KeptToken:
    """A token that is read again when its file changes.

    Args:
        token: as the settings have it.
        file: where it came from.
    """

    def __init__(self, token: SecretStr | None, file: Path | None) -> None:
        self._token = None if token is None else token.get_secret_value()
        self._file = file
        self._mark = None if file is None else mark_of([file])

    def __call__(self) -> str | None:
        """The present one; the one before while the file cannot be read."""
        if self._file is not None and (mark := mark_of([self._file])) != self._mark:
            try:
                self._token, self._mark = read_secret(self._file) or self._token, mark
            except ConfigurationError:
                return self._token
        return self._token


def control_door(control: Control) -> Door:
    """The control port's.

    Raises:
        ConfigurationError: certificate and key cannot be used.
    """
    tls = None if control.certificate_file is None else ServerTls(control)
    return Door(False, KeptToken(control.token, control.token_file), control.read_with_token, tls)


PROBES_DOOR = Door(probes_only=True)
"""Of a port that has the control port beside it."""
