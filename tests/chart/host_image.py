"""What stands for the image where none is built: this machine's file system, copied on write, with this environment and a copy of the sources where the image has them.

What it leaves out of the image, only the nightly tests look at: its Debian and Java, what `ops/image/slim.sh` takes away, tini, the archive of Spark's classes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

from numba.core.caching import _CacheLocator

from app.bootstrap.artifacts import connector_jars
from app.bootstrap.java import find_java
from app.bootstrap.kernels import warm_kernels
from app.bootstrap.places import PROJECT, cache_folder

HOME = Path("/opt/cep")
"""Of the application in the image."""
SOURCES = ("app", "shedding", "schemas", "queries", "ops/image")
KEPT = ("*.nbi", "*.nbc")
"""Machine code, beside the sources."""


def host_image(folder: Path) -> str:
    """Lines of fakekube's mapping.

    Args:
        folder: for the copy of the sources and of the kernels.
    """
    warm_kernels()
    connector_jars()
    stage = folder / "opt-cep"
    for name in SOURCES:  # with their times: bytecode and machine code belong to sources of such a time
        shutil.copytree(PROJECT / name, stage / name, ignore=shutil.ignore_patterns(*KEPT, "*.lock"))
    (stage / "cache").mkdir()
    _keep_kernels(stage / "kernels")
    venv = Path(sys.prefix).resolve()
    binds = {str(stage): str(HOME), str(cache_folder()): f"{HOME}/cache"}
    lines = {
        "rootfs": "host",
        "venv": str(venv),
        "entrypoint": [f"{HOME}/ops/image/entrypoint.sh"],
        "workdir": str(HOME),
        "user": "10001:0",
        "username": "cep",
    }
    tables = {"binds": binds, "env": _environment(venv)}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
    return text + "".join(
        f"[image.{table}]\n" + "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in values.items())
        for table, values in tables.items()
    )


def _environment(venv: Path) -> dict[str, str]:
    """As the Dockerfile has it; bytecode of packages is where ours is."""
    python = f"{venv}/bin/python"
    library = f"{venv}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    return {
        "HOME": "/tmp",
        "JAVA_HOME": str(find_java().home),
        "PYTHONPATH": str(HOME),
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"PYTHONPYCACHEPREFIX": f"{HOME}/cache/bytecode"} if sys.pycache_prefix else {}),
        "PYTHONUNBUFFERED": "1",
        "SPARK_HOME": f"{library}/pyspark",
        "SPARK_CONF_DIR": f"{HOME}/ops/image/spark",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_USER": "cep",
        "HADOOP_USER_NAME": "cep",
        "CEP_CACHE": f"{HOME}/cache",
        "CEP_BOOTSTRAP": "off",
        "NUMBA_CACHE_DIR": "/tmp/kernels",
    }


def _keep_kernels(folder: Path) -> None:
    """The machine code that lies beside the sources, as numba looks for it in a folder of its own."""
    for kept in (path for package in ("app", "shedding") for ending in KEPT for path in (PROJECT / package).rglob(ending)):
        beside = HOME / kept.relative_to(PROJECT).parent.parent / "kernels.py"  # any file of the folder
        into = folder / _CacheLocator.get_suitable_cache_subpath(os.fspath(beside))
        into.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(kept, into / kept.name)
