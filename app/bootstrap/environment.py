"""The Python environment: made from a lock with hashes, once, then entered by re-executing.

Where: the running interpreter, if the locked packages are there already (an image, an environment made by hand); else ``$CEP_VENV``;
else ``.venv`` in the project; else, if the project cannot be written to, a folder of the cache named after the lock.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from app.bootstrap.bytecode import bytecode_in_cache
from app.bootstrap.failure import SetupError
from app.bootstrap.packages import blocks, install
from app.bootstrap.places import PROJECT, cache_folder
from app.bootstrap.progress import say, step
from app.bootstrap.turn import exclusive

RUN_LOCK = PROJECT / "requirements.lock"
TEST_LOCK = PROJECT / "tests" / "requirements.lock"
"""Holds everything of the first with the same versions: both commands share one environment."""

_SCRIPT = """#!{environment}/bin/python
from app.bootstrap.bytecode import bytecode_in_cache

bytecode_in_cache()

from app.cli.main import main

main()
"""
_ENTERED = "CEP_BOOTSTRAP_ENTERED"
"""Set across the re-execution, so that an environment that never fits ends in a message and not in a loop."""


def enter(lock: Path, module: str, arguments: Sequence[str]) -> None:
    """Return if the running interpreter has what the lock lists; else make the environment and become ``python -m module`` in it.

    Args:
        lock: Pinned requirements with hashes.
        module: What to run there.
        arguments: Its arguments.

    Raises:
        SetupError: no environment can be made here.
    """
    bytecode_in_cache()
    if os.environ.get("CEP_BOOTSTRAP") == "off" or _satisfied(lock):
        os.environ.pop(_ENTERED, None)
        return
    if os.environ.get(_ENTERED):
        raise SetupError(f"the environment {sys.prefix} does not hold what {lock.name} lists", f"remove {sys.prefix} and start again")
    python = _ensure(lock)
    os.environ[_ENTERED] = "1"
    os.execv(python, [str(python), "-m", module, *arguments])  # noqa: S606 - that is the point


def _satisfied(lock: Path) -> bool:
    stamp = _stamp(Path(sys.prefix), lock)
    return stamp.exists() or _all_installed(lock)


def _all_installed(lock: Path) -> bool:
    """Whether every package that the lock wants everywhere is here in a version of the lock.

    Lines with a condition are for some platforms and versions only; they follow from the others.
    """
    versions: dict[str, set[str]] = {}
    conditional: set[str] = set()
    for name, version, condition in re.findall(
        r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)\s*(;)?", lock.read_text(encoding="utf-8"), re.MULTILINE
    ):
        versions.setdefault(name, set()).add(version)
        if condition:
            conditional.add(name)
    there = _installed()
    return all(there.get(_as_in_folder(name)) in wanted for name, wanted in versions.items() if name not in conditional)


def _installed() -> dict[str, str]:
    """Versions of the packages that this interpreter finds, by the names of their folders: importlib's way to them costs every start 0.1 s."""
    found: dict[str, str] = {}
    for folder in filter(os.path.isdir, sys.path):
        for entry in Path(folder).glob("*.dist-info"):
            name, _, version = entry.stem.rpartition("-")
            found.setdefault(_as_in_folder(name), version)
    return found


def _as_in_folder(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _stamp(environment: Path, lock: Path) -> Path:
    return environment / ".cep" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]


def environment_folder(lock: Path) -> Path:
    """Where the environment for this lock is or will be."""
    told = os.environ.get("CEP_VENV")
    if told:
        return Path(told).expanduser().resolve()
    if os.access(PROJECT, os.W_OK):
        return PROJECT / ".venv"
    return cache_folder() / "environments" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]


def _ensure(lock: Path) -> Path:
    environment = environment_folder(lock)
    python = environment / "bin" / "python"
    if _stamp(environment, lock).exists() and python.exists():
        return python
    turn = cache_folder() / "environments" / f"{hashlib.sha256(str(environment).encode()).hexdigest()[:16]}.lock"
    with exclusive(turn):
        if not (_stamp(environment, lock).exists() and python.exists()):
            started = time.monotonic()
            _make(environment, python)
            _install(environment, python, lock)
            say(f"✓ environment ready in {environment} ({time.monotonic() - started:.0f} s)")
    return python


def _make(environment: Path, python: Path) -> None:
    installing = environment / ".cep" / "installing"
    if installing.exists():
        say("… an earlier installation was interrupted: starting afresh, what was downloaded is kept")
        shutil.rmtree(environment)
    works = python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
    if not works:
        with step("environment", f"Python {sys.version_info.major}.{sys.version_info.minor} in {environment}"):
            shutil.rmtree(environment, ignore_errors=True)
            done = subprocess.run([sys.executable, "-m", "venv", str(environment)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                shutil.rmtree(environment, ignore_errors=True)
                detail = (done.stdout + done.stderr).strip()
                raise SetupError(
                    f"python -m venv failed: {detail}", "some systems keep venv and pip in a package of their own (python3-venv)"
                )
    installing.parent.mkdir(exist_ok=True)


def _install(environment: Path, python: Path, lock: Path) -> None:
    count = len(blocks(lock.read_text(encoding="utf-8")))
    installing = environment / ".cep" / "installing"
    installing.touch()
    with step("packages", f"up to {count} from {lock.relative_to(PROJECT)}") as progress:
        tail = install(python, lock, progress)
        if tail:
            installing.unlink()  # pip failed by itself, before or after touching anything: it can go on from there
            raise SetupError(f"pip could not install {lock.name}:\n{tail}", "without a network a filled pip cache is needed")
    if environment == PROJECT / ".venv":
        _make_importable(environment)
    installing.unlink()
    _stamp(environment, lock).touch()


def _make_importable(environment: Path) -> None:
    """``.venv/bin/cep`` works from every folder, and so do Spark's Python workers."""
    library = next((environment / "lib").glob("python3.*")) / "site-packages"
    (library / "cep-project.pth").write_text(f"{PROJECT}\n", encoding="utf-8")
    script = environment / "bin" / "cep"
    script.write_text(_SCRIPT.format(environment=environment), encoding="utf-8")
    script.chmod(0o755)
