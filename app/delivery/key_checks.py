"""Whether Java's client can read the private key: it is pickier than librdkafka, and says little about it."""

from __future__ import annotations

import base64
import binascii
import re
from pathlib import Path

from app.bootstrap.java import find_java
from app.errors import Finding

PKCS8 = re.compile(rb"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----(.*?)-----END", re.DOTALL)
PBES2 = bytes.fromhex("2a864886f70d01050d")
"""The object identifier of how OpenSSL encrypts keys today. Java 17 does not find the algorithm behind it for keys in PEM; Java 25 does."""
JAVA_WITHOUT_PBES2 = 17
HEAD_BYTES = 64


def unfit_key(file: Path, *, has_password: bool) -> list[Finding]:
    """What is wrong with the key file, if anything.

    Args:
        file: readable.
        has_password: whether a password was given for it.
    """
    found = PKCS8.search(file.read_bytes())
    if found is None:
        return [
            _finding(
                file, "holds no PKCS#8 key (BEGIN PRIVATE KEY)", f"openssl pkcs8 -topk8 -nocrypt -in {file.name} -out pkcs8.key makes one"
            )
        ]
    if found[1] is None:
        return []
    if not has_password:
        return [_finding(file, "is encrypted, and no kafka.security.key_password_file is given", "give its password in a file")]
    if _is_pbes2(found[2]) and find_java().version == JAVA_WITHOUT_PBES2:
        hint = (
            f"openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in {file.name} -out {file.name}.pbes1 encrypts it so that Java 17 reads it; "
            "cert-manager and Strimzi leave keys in plain PKCS#8, guarded by the Secret"
        )
        return [_finding(file, "is encrypted by PBES2, which Java 17 cannot read", hint)]
    return []


def _is_pbes2(body: bytes) -> bool:
    try:
        return PBES2 in base64.b64decode(b"".join(body.split()))[:HEAD_BYTES]
    except binascii.Error:
        return False


def _finding(file: Path, what: str, hint: str) -> Finding:
    return Finding(f"kafka.security.key_file: {file} {what}", hint=hint)
