"""An authority of its own for every test that needs TLS, and certificates that it signs, as PEM files."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates for 127.0.0.1 and localhost, and for other names of this machine where they are said.

    Attributes:
        file: its own certificate.
    """

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            _builder(self._name, self._name, self._key).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        ).sign(self._key, hashes.SHA256())
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, password: str | None = None, hosts: Sequence[str] = (), *, here: bool = True) -> Identity:
        """A new certificate of this common name, for this machine too or for other ``hosts`` alone, whose key is PKCS#8, perhaps encrypted, as Java 17 can read it; issued again, the same files get another one."""
        key = ec.generate_private_key(ec.SECP256R1())
        known = [x509.DNSName(host) for host in (*hosts, *(("localhost",) if here else ()))]
        names = x509.SubjectAlternativeName([*known, *([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))] if here else [])])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _builder(subject, self._name, key).add_extension(names, critical=False).sign(self._key, hashes.SHA256())
        kept = Identity(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        replace(kept.certificate, certificate.public_bytes(Encoding.PEM).decode())
        plain = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        replace(kept.key, plain if password is None else encrypted_for_java(plain, password))
        return kept


def encrypted_for_java(key: str, password: str) -> str:
    """The way that Java 17 reads; cryptography knows the newer one only."""
    command = ["openssl", "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout", "env:PASSWORD"]
    done = subprocess.run(
        command, input=key, env={**os.environ, "PASSWORD": password}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def replace(file: Path, text: str) -> None:
    """Exchanges a file as Kubernetes does: whole, and another one than before."""
    draft = file.with_name(f".{file.name}")
    draft.write_text(text, encoding="utf-8")
    draft.rename(file)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    return made.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)
