"""TLS for the control port: certificate and key from files that may be exchanged while the server runs."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

from app.config.secret_files import Mark, mark_of, read_secret
from app.config.settings import Control
from app.errors import ConfigurationError, Finding
from app.observe.logs import get_logger, log_failure

log = get_logger(__name__)


class ServerTls:
    """Contexts for new connections. Safe to use from any thread.

    Args:
        control: with certificate and key.

    Raises:
        ConfigurationError: they cannot be used.
    """

    def __init__(self, control: Control) -> None:
        if control.certificate_file is None or control.key_file is None:
            raise AssertionError("no certificate")
        self._certificate, self._key = control.certificate_file, control.key_file
        self._password = control.key_password.get_secret_value() if control.key_password is not None else ""
        self._password_file = control.key_password_file
        self._lock = threading.Lock()
        self._mark = self._marked()
        self._context = self._loaded()

    def context(self) -> ssl.SSLContext:
        """The one of the present files; while they do not fit (exchanged one after the other), the one before."""
        with self._lock:
            mark = self._marked()
            if mark != self._mark:
                self._mark = mark
                try:
                    self._context = self._loaded()
                    log.info("the control port has a new certificate", file=str(self._certificate))
                except ConfigurationError as error:
                    log_failure(log, "the control port keeps its certificate", error)
            return self._context

    def _marked(self) -> Mark:
        return mark_of(file for file in (self._certificate, self._key, self._password_file) if file is not None)

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        password = self._password if self._password_file is None else read_secret(Path(self._password_file))
        try:
            context.load_cert_chain(self._certificate, self._key, lambda: password)  # without it OpenSSL would ask on the terminal
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "reason", None) or error.strerror or str(error)
            hint = "PEM files that belong together, and key_password_file where the key has a password"
            raise ConfigurationError(
                [Finding(f"http.control: certificate {self._certificate} and key {self._key} cannot be used: {reason}", hint=hint)]
            ) from error
        return context
