"""``python -m ops.tools``: the programs that check chart, manifests, image and rules, in pinned versions, into the cache.

    python -m ops.tools          installs what is not there; prints the folder. Exit code 69: some could not be had, standard error says which
    python -m ops.tools --sums   prints the checksums of what the indexes hold in these versions

They come from where this machine's go, pip and apt fetch their packages; nothing is installed outside of the cache. Some minutes the first time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from app.bootstrap.turn import exclusive
from ops.tools.crds import write_definitions, write_kubernetes
from ops.tools.pins import Debian, GoModule, Pins, Wheel, pins, tools_folder

RESOURCES = ("servicemonitors", "podmonitors", "prometheusrules")
MISSING = 69
SECONDS = 1800
"""For one program; building takes minutes of processor time."""


class UnavailableError(Exception):
    """It cannot be had here."""


def ran(argv: list[str], folder: Path | None = None, **env: str) -> str:
    """Standard output of a command.

    Raises:
        UnavailableError: it is not there, or failed; the text is the end of what it said.
    """
    try:
        done = subprocess.run(argv, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(str(error)) from error
    if done.returncode:
        raise UnavailableError((done.stderr or done.stdout).strip()[-600:])
    return done.stdout


def downloaded(one: GoModule) -> tuple[Path, str]:
    """Folder and sum of a module in Go's cache."""
    told = json.loads(ran(["go", "mod", "download", "-json", f"{one.module}@{one.version}"], Path(tempfile.gettempdir())))
    return Path(told["Dir"]), told["Sum"]


def module(one: GoModule) -> Path:
    """The module's folder, when its sum is the pinned one."""
    folder, found = downloaded(one)
    if found != one.sum:
        raise UnavailableError(f"{one.module} {one.version} has sum {found}, pinned is {one.sum}")
    return folder


def build(one: GoModule, out: Path, known: Pins) -> None:
    """Builds a program in a copy of its module."""
    with tempfile.TemporaryDirectory() as work:
        copy = Path(work) / "module"
        shutil.copytree(module(one), copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):  # Go's cache is read-only
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
        minor = known.default_kubernetes.split(".")[1]
        flags = "-s -w " + one.flags.format(version=one.version, minor=minor)
        made = Path(work) / "program"
        lean = "-gcflags=all=-dwarf=false"  # a tenth of the compiler's time, for what -s and -w leave out of the program
        argv = ["go", "build", "-trimpath", "-mod=readonly", "-buildvcs=false", lean, "-ldflags", flags, "-o", str(made), one.package]
        ran(argv, copy, CGO_ENABLED="0", GOFLAGS="")
        shutil.move(made, out / "bin" / one.program)


def fetched(one: Wheel, work: Path) -> Path:
    """The wheel, not checked."""
    ran(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--disable-pip-version-check",
            "-d",
            str(work),
            f"{one.package}=={one.version}",
        ]
    )
    return next(work.glob("*.whl"))


def wheel(one: Wheel, work: Path) -> Path:
    """The wheel, when its sum is the pinned one."""
    file = fetched(one, work)
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != one.sha256:
        raise UnavailableError(f"{one.package} {one.version} has sum {found}, pinned is {one.sha256}; it may be that of another platform")
    return file


def program_of_wheel(one: Wheel, out: Path) -> None:
    """Unpacks a wheel and takes its program."""
    with tempfile.TemporaryDirectory() as work:
        file = wheel(one, Path(work))
        shutil.unpack_archive(file, Path(work) / "unpacked", "zip")
        found = next(path for path in (Path(work) / "unpacked").rglob(one.program) if path.is_file())
        shutil.copy(found, out / "bin" / one.program)
        (out / "bin" / one.program).chmod(0o755)


def schemas(known: Pins, out: Path) -> None:
    """Kubernetes' and those of Prometheus' operator."""
    with tempfile.TemporaryDirectory() as work:
        source = next(one for one in known.wheels if not one.program)
        write_kubernetes(wheel(source, Path(work)), known.kubernetes, out / "schemas" / "kubernetes")
    for one in known.modules:
        if not one.program:
            write_definitions(module(one) / one.package, RESOURCES, out / "schemas" / "crd")
    (out / "schemas" / "done").touch()


def from_debian(wanted: Debian, out: Path) -> None:
    """Downloads packages with lists of our own and unpacks them: no user, no daemon, no change of this machine."""
    with tempfile.TemporaryDirectory() as work:
        lists, cache = Path(work) / "lists", Path(work) / "cache"
        (lists / "partial").mkdir(parents=True)
        (cache / "archives" / "partial").mkdir(parents=True)
        apt = ["apt-get", "-q", "-o", f"Dir::State::lists={lists}", "-o", f"Dir::Cache={cache}", "-o", "Acquire::Languages=none"]
        if os.geteuid() == 0:
            apt += ["-o", "APT::Sandbox::User=root"]
        ran([*apt, "update"])
        faults = []
        for package in wanted.packages:
            try:
                ran([*apt, "download", package], Path(work))
            except UnavailableError as error:
                faults.append(str(error))
        for file in Path(work).glob("*.deb"):
            ran(["dpkg-deb", "-x", str(file), str(Path(work) / "unpacked")])
        for program in wanted.programs:
            found = Path(work) / "unpacked" / "usr" / "bin" / program
            if not found.exists():
                raise UnavailableError("; ".join(faults) or f"no {program} in {', '.join(wanted.packages)}")
            shutil.copy(found, out / "bin" / program)


def missing(out: Path) -> dict[str, Callable[[], None]]:
    """What is not there, and how it is made."""
    known = pins()

    def lacks(program: str) -> bool:
        return bool(program) and not (out / "bin" / program).exists()

    steps: dict[str, Callable[[], None]] = {one.program: partial(build, one, out, known) for one in known.modules if lacks(one.program)}
    steps |= {one.program: partial(program_of_wheel, one, out) for one in known.wheels if lacks(one.program)}
    if any(map(lacks, known.debian.programs)):
        steps[", ".join(known.debian.programs)] = partial(from_debian, known.debian, out)
    if not (out / "schemas" / "done").exists():
        steps["schemas"] = partial(schemas, known, out)
    return steps


def install() -> int:
    """Installs what is missing; returns the exit code."""
    out = tools_folder()
    (out / "bin").mkdir(parents=True, exist_ok=True)
    failed = 0
    with exclusive(out / "lock"):
        for name, step in missing(out).items():
            begun = time.monotonic()
            try:
                step()
            except UnavailableError as error:
                failed += 1
                print(f"✗ {name}: {error}", file=sys.stderr)
            else:
                print(f"✓ {name} ({time.monotonic() - begun:.0f} s)", file=sys.stderr)
    print(out)
    return MISSING if failed else 0


def sums() -> int:
    """Prints the sums of what the indexes hold."""
    for one in pins().modules:
        print(f'{one.module} {one.version} sum = "{downloaded(one)[1]}"')
    for each in pins().wheels:
        with tempfile.TemporaryDirectory() as work:
            print(f'{each.package} {each.version} sha256 = "{hashlib.sha256(fetched(each, Path(work)).read_bytes()).hexdigest()}"')
    return 0


if __name__ == "__main__":
    sys.exit(sums() if sys.argv[1:] == ["--sums"] else install())
