"""Checks of the machine: versions, room on disks, the checkpoint, the HTTP port."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
from http.client import HTTPConnection, HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from app import __version__
from app.bootstrap.artifacts import is_there
from app.bootstrap.failure import SetupError
from app.bootstrap.java import ACCEPTED_VERSIONS, find_java
from app.config.addresses import Address, FolderAddress
from app.config.settings import Settings
from app.owners.inventory import fault_of_spark_log
from app.pipeline.checkup.checks import Check, failed, ok, warning
from app.pipeline.numbers import buckets_kept, load_numbers
from app.storage.check import look
from app.storage.open import open_store
from app.storage.trial import try_out

LEAST_BYTES, FEW_BYTES = 64 << 20, 1 << 30
"""Free room below which a disk counts as full, and as nearly full."""
FEW_SHARE = 0.05
PROC_LOCKS = Path("/proc/locks")
ANSWER_S = 2.0
"""So long an application on this machine may take to say that it lives."""


def versions() -> list[Check]:
    """The application's, and of what it stands on."""
    try:
        spark = version("pyspark")
    except PackageNotFoundError:
        return [
            failed("versions", "pyspark is not installed", "start cep as `python -m app`, which sets its environment up", os.EX_UNAVAILABLE)
        ]
    try:
        java = find_java()
    except SetupError as error:
        hint = f"set JAVA_HOME to a Java {' or '.join(map(str, ACCEPTED_VERSIONS))}"
        return [failed("versions", f"no Java: {error}", hint, os.EX_UNAVAILABLE)]
    found = f"cep {__version__}, Python {platform.python_version()}, Spark {spark}, Java {java.version}"
    if not is_there("connector"):
        return [
            warning(
                "versions",
                f"{found}; Spark's Kafka connector is not fetched yet",
                "the first cep run fetches it, and needs a way to the artifacts",
            )
        ]
    return [ok("versions", found)]


def disks(settings: Settings, usage: type | object = shutil.disk_usage) -> list[Check]:
    """Room where the checkpoint is, and where Spark and we keep temporary files."""
    places = {"temporary files": Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])}
    address = settings.checkpoint.address
    if isinstance(address, FolderAddress):
        places = {"checkpoint": Path(address.path).absolute(), **places}
    return [_disk(what, place, usage) for what, place in places.items()]


def _disk(what: str, place: Path, usage: object) -> Check:
    there = next(above for above in (place, *place.parents) if os.path.exists(above))  # noqa: PTH110 - Path.exists raises where a folder above may not be searched
    room = usage(there)  # type: ignore[operator]
    found = f"{what}: {_size(room.free)} of {_size(room.total)} free at {there}"
    if room.free < LEAST_BYTES:
        return failed("disk", found, "make room there, or move it to a larger volume; batches fail when it is full", os.EX_UNAVAILABLE)
    if room.free < max(FEW_BYTES, FEW_SHARE * room.total):
        return warning("disk", found, "make room there before it is full")
    return ok("disk", found)


def _size(count: float) -> str:
    """Bytes for people.

    >>> _size(512), _size(3 << 30)
    ('512 B', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def checkpoint(settings: Settings) -> list[Check]:
    """Can it be written and read, and does it go with the settings? A folder that is not there yet is not made: the path may be mistyped.

    Raises:
        CepError: it cannot.
    """
    uri, address = settings.checkpoint.uri, settings.checkpoint.address
    if isinstance(address, FolderAddress) and not os.path.exists(address.path):  # noqa: PTH110 - see `_disk`
        return [_checkpoint_to_make(address)]
    try_out(address)
    store = open_store(uri)
    numbers = load_numbers(uri).in_buckets(buckets_kept(settings).spark.buckets)
    if fault := fault_of_spark_log(store):
        hint = "restore it from a copy, or begin with another checkpoint.path; cep checkpoint verify says what else is amiss"
        return [failed("checkpoint", fault, hint, 1)]
    holder = driver_of(address)
    state = f"state in {numbers.buckets} buckets, {len(numbers.topics)} topics known" if numbers.topics else "nothing in it yet"
    running = f"; the driver with process id {holder} works on it" if holder else ""
    return [ok("checkpoint", f"{settings.checkpoint.path} can be written and read: {state}{running}")]


def _checkpoint_to_make(address: FolderAddress) -> Check:
    folder = Path(address.path).absolute()
    for finding in look(address):
        return failed("checkpoint", finding.message, finding.hint or "", os.EX_CONFIG)
    if not folder.parent.is_dir():
        return warning(
            "checkpoint",
            f"neither {folder} nor {folder.parent} is there",
            "is checkpoint.path right? The application makes both when it starts",
        )
    return ok("checkpoint", f"{folder} is not there yet: the application makes it when it starts")


def driver_of(address: Address) -> int | None:
    """The process that holds the checkpoint, as far as it can be seen from here without touching its lock."""
    if not isinstance(address, FolderAddress):
        return None
    try:
        inode = (Path(address.path) / "driver.lock").stat().st_ino
        lines = PROC_LOCKS.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        kind, *rest = line.split()[1:]
        if kind == "FLOCK" and len(rest) >= 4 and rest[3].rpartition(":")[2] == str(inode):
            return int(rest[2])
    return None


def port(settings: Settings) -> list[Check]:
    """Is the HTTP server's port free, where no driver of ours has it?"""
    http, control = settings.http, settings.http.control
    places = [(http.host, http.port), *([] if control.port is None else [(control.host or http.host, control.port)])]
    if driver_of(settings.checkpoint.address) or _is_ours(http.host, http.port):
        return [ok("port", f"{' and '.join(f'{host}:{number}' for host, number in places)}: the running application's; cep status asks it")]
    return [_port(host, number) for host, number in places]


def _is_ours(host: str, number: int) -> bool:
    """Whether an application of ours answers there: a bucket has no lock that could be seen."""
    if not number:
        return False
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - what a server listens on is no address to ask
    connection = HTTPConnection(here, number, timeout=ANSWER_S)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().read().strip().rpartition(b"\n")[2].startswith(b"livez ")
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _port(host: str, number: int) -> Check:
    where = f"{host}:{number}"
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            hint = "set http.port, or http.control.port; 0 takes any free one; or is it the application on another machine or checkpoint?"
            return failed("port", f"cannot listen on {where}: {(error.strerror or str(error)).lower()}", hint, os.EX_CONFIG)
    return ok("port", f"{where} is free")
