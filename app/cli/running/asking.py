"""Asks a running application's HTTP server, and says why it does not answer."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException, InvalidURL
from pathlib import Path

from app.errors import AccessRefusedError, CepError, DependencyError

TIMEOUT_S = 10.0
REFUSED = (401, 403)


@dataclass(frozen=True, slots=True)
class Asked:
    """A server.

    Attributes:
        url: where it listens, without a slash at the end.
        token: shown with every question; empty: none.
        ca_file: the server's certificate, or those of who signed it; None: the system's are asked.
        own: whether it is this machine that is asked, and the certificate that of the server's settings: then it is told by that, whatever it calls itself.
    """

    url: str
    token: str = ""
    ca_file: Path | None = None
    own: bool = False

    def get(self, path: str, *, also: int | None = None) -> tuple[int, str]:
        """Status and text of an answer.

        Args:
            path: with a slash.
            also: a status that is an answer as well.

        Raises:
            AccessRefusedError: it wants another token.
            DependencyError: nobody answers, or somebody else.
        """
        try:
            request = urllib.request.Request(f"{self.url}{path}", headers={"Authorization": f"Bearer {self.token}"} if self.token else {})
            with self._opener().open(request, timeout=TIMEOUT_S) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code == also:
                return error.code, error.read().decode(errors="replace")
            if error.code in REFUSED:
                hint = "name a file with the right token: --token-file"
                raise AccessRefusedError(f"{self.url} refuses access: {error.reason}\nhint: {hint}") from error
            raise self.stranger() from error
        except (OSError, ValueError, InvalidURL) as error:
            reason = str(getattr(error, "reason", None) or error)
            hint = (
                "is the application running (cep run)? --url, or http.port of the settings, says where; "
                "in Kubernetes kubectl port-forward to the driver first; a certificate of your own: --ca-file"
            )
            raise DependencyError(f"nobody answers at {self.url}: {reason}\nhint: {hint}") from error
        except HTTPException as error:  # a broker, say, which speaks something else
            raise self.stranger() from error

    def stranger(self) -> DependencyError:
        """The error for an answer that no application gives."""
        return DependencyError(
            f"who answers at {self.url} is no cep, or its port for probes alone\n"
            "hint: is it the port of the driver (http.control.port where there is one, 8081 in the chart; else http.port)? --url names another one"
        )

    def _opener(self) -> urllib.request.OpenerDirector:
        direct = urllib.request.ProxyHandler({})  # a proxy of the environment must not stand between us and this machine
        if self.ca_file is None:
            return urllib.request.build_opener(direct)
        try:
            context = ssl.create_default_context(cafile=str(self.ca_file))
        except OSError as error:
            raise CepError(f"--ca-file: {self.ca_file} holds no certificates: {error}\nhint: PEM is needed") from error
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # the server's own certificate is enough
        context.check_hostname = not self.own
        return urllib.request.build_opener(direct, urllib.request.HTTPSHandler(context=context))


def token_in(file: Path | None) -> str:
    """The token in a file; empty without one.

    Raises:
        CepError: it cannot be read.
    """
    try:
        return "" if file is None else file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CepError(f"--token-file: cannot read {file}: {error}\nhint: name a file that you may read") from error
