"""Requests of tasks to their driver, and its answers, signed with the application's token: it never travels, and neither end believes anybody else.

What is said is no secret (a batch, a schema's id, whether the registry answered), so it is signed and not hidden. A request that a stranger repeats says
the same of the same batch again, which changes nothing.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass

from app.config.secret_files import derived

SCHEME = "CEP-HMAC-SHA256"
"""Of the header ``Authorization: CEP-HMAC-SHA256 nonce:signature``."""
ANSWER_HEADER = "X-Cep-Signature"
NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Signer:
    """One end.

    Attributes:
        key: see `signer`.
    """

    key: bytes

    def request(self, path: str, body: bytes) -> tuple[str, str]:
        """The nonce of a new request, and the header that it needs."""
        nonce = secrets.token_hex(NONCE_BYTES)
        return nonce, f"{SCHEME} {nonce}:{self._signature(b'request', nonce, path.encode(), body)}"

    def accepts(self, header: str, path: str, body: bytes) -> str | None:
        """The nonce of a request that is one of ours, else None."""
        scheme, _, rest = header.partition(" ")
        nonce, _, signature = rest.partition(":")
        if scheme != SCHEME or not self._is(signature, self._signature(b"request", nonce, path.encode(), body)):
            return None
        return nonce

    def answer(self, nonce: str, status: int, body: bytes) -> str:
        """What the answer to that request needs in `ANSWER_HEADER`."""
        return self._signature(b"answer", nonce, str(status).encode(), body)

    def believes(self, signature: str, nonce: str, status: int, body: bytes) -> bool:
        """Whether an answer comes from our driver, and to this request."""
        return self._is(signature, self.answer(nonce, status, body))

    def _signature(self, what: bytes, nonce: str, *parts: bytes) -> str:
        message = b"".join(len(part).to_bytes(8, "big") + part for part in (what, nonce.encode(), *parts))
        return hmac.digest(self.key, message, "sha256").hex()

    @staticmethod
    def _is(shown: str, wanted: str) -> bool:
        return hmac.compare_digest(shown.encode(), wanted.encode())


def signer(token: str) -> Signer:
    """With the application's token."""
    return Signer(derived(token, "cep: requests of tasks"))
