# ruff: noqa: INP001 - a program of the build, in no package
"""Compiles what the application imports, and nothing else, for the image's build: its root is read-only, so a module without bytecode is compiled in every process again.

Of all installed modules bytecode would have 100 MB, and most are never imported. Python's own library is among what is compiled: official images bring it without.
Called with ``--check`` nothing is written, and it fails when a module that `app` or Spark's workers import has no bytecode.
"""

from __future__ import annotations

import importlib
import pkgutil
import py_compile
import sys
from importlib.util import cache_from_source
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "shedding")
WORKERS = ("pyspark.daemon", "pyspark.worker", "pyspark.sql.pandas.serializers", "pandas")
"""What nothing in the application imports by name: Spark starts them."""
OPTIONAL = ("app.cli.shedding.evaluate_plots",)
"""Wants what the image may be built without."""


def modules() -> list[str]:
    """All modules of the application, less programs, and what Spark starts."""
    own = [module.name for package in PACKAGES for module in pkgutil.walk_packages([str(PROJECT / package)], f"{package}.")]
    return [*PACKAGES, *(name for name in own if not name.endswith(".__main__") and name not in OPTIONAL), *WORKERS]


def imported() -> list[Path]:
    """Sources of everything that is imported once all of :func:`modules` are, sorted."""
    for name in modules():
        importlib.import_module(name)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    programs = {str(PROJECT / package / "__main__.py") for package in PACKAGES}
    return sorted(Path(file) for file in files | programs if file and file.endswith(".py") and Path(file).exists())


def main(arguments: list[str]) -> int:
    """Compiles them, or with ``--check`` names those that are not compiled; prints how many there are."""
    sys.path.insert(0, str(PROJECT))
    sources = imported()
    if "--check" in arguments:
        missing = [source for source in sources if not Path(cache_from_source(str(source))).exists()]
        print(f"{len(sources)} modules, {len(missing)} without bytecode", *missing, sep="\n")
        return 1 if missing else 0
    for source in sources:
        # unchecked: a copied file has another time of its own
        py_compile.compile(str(source), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    print(f"{len(sources)} modules compiled")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
