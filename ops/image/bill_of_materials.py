# ruff: noqa: INP001 - a program of the build, in no package
"""The image's software bill of materials, as CycloneDX 1.6 JSON on standard output: packages of Debian and Python, and Java's archives.

    python ops/image/bill_of_materials.py --python SITE-PACKAGES --jars FOLDER [FOLDER …] [--java HOME] >bom.json

Names and versions are what the packages say of themselves (dpkg, Python's metadata, Maven's properties inside the archives, the file `release` of a Java runtime);
an archive that says nothing has its file's name. The same image gives the same bill.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]
DPKG = ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n"]
POM = re.compile(r"META-INF/maven/[^/]+/[^/]+/pom\.properties")
ARCHIVE = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)")


def main() -> int:
    """Prints the bill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, metavar="SITE-PACKAGES")
    parser.add_argument("--jars", type=Path, nargs="*", default=[], metavar="FOLDER")
    parser.add_argument("--java", type=Path, metavar="HOME", help="a runtime that is no package: made by jlink")
    chosen = parser.parse_args()
    found = [*debian(), *python(chosen.python), *(one for folder in chosen.jars for one in archives(folder))]
    found += [runtime(chosen.java)] if chosen.java else []
    json.dump(bill(found), sys.stdout, indent=1)
    return 0


def bill(components: list[Component]) -> dict[str, Any]:
    """Each component once, in the order of their addresses."""
    by_address = {one["purl"]: one for one in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "components": [{"type": "library", "bom-ref": purl, **by_address[purl]} for purl in sorted(by_address)],
    }


def debian() -> Iterator[Component]:
    """What dpkg has installed."""
    for line in subprocess.run(DPKG, capture_output=True, text=True, check=True).stdout.splitlines():
        status, name, version, architecture = line.split("\t")
        if status.startswith("ii"):
            purl = f"pkg:deb/debian/{quote(name)}@{quote(version, safe='')}?arch={architecture}"
            yield {"name": name, "version": version, "purl": purl}


def python(folder: Path) -> Iterator[Component]:
    """The distributions in a folder of Python packages."""
    for one in distributions(path=[str(folder)]):
        name, version = one.metadata["Name"], one.version
        told = one.metadata.get("License-Expression")
        licence = {"licenses": [{"expression": told}]} if told else {}
        yield {
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{quote(version, safe='')}",
            **licence,
        }


def runtime(home: Path) -> Component:
    """A Java runtime: which JDK its modules are from is in its file `release`."""
    told = dict(line.split("=", 1) for line in (home / "release").read_text().splitlines() if "=" in line)
    version = told["JAVA_VERSION"].strip('"')
    return {"name": "openjdk", "version": version, "purl": f"pkg:generic/openjdk@{quote(version, safe='')}"}


def archives(folder: Path) -> Iterator[Component]:
    """The archives below a folder, with their checksums."""
    for file in sorted(folder.rglob("*.jar")):
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        group, name, version = coordinates(file)
        purl = f"pkg:maven/{f'{quote(group)}/' if group else ''}{quote(name)}@{quote(version, safe='')}"
        known = {"group": group} if group else {}
        yield {**known, "name": name, "version": version, "purl": purl, "hashes": [{"alg": "SHA-256", "content": digest}]}


def coordinates(file: Path) -> tuple[str, str, str]:
    """Group, name and version of an archive: what Maven wrote into it, where that is about this archive and not about one that was packed into it; else what its name says."""
    told = ARCHIVE.fullmatch(file.stem)
    name, version = (told["name"], told["version"]) if told else (file.stem, "unknown")
    with zipfile.ZipFile(file) as archive:
        for entry in sorted(filter(POM.fullmatch, archive.namelist())):
            properties = dict(line.split("=", 1) for line in archive.read(entry).decode().splitlines() if "=" in line)
            if properties.get("artifactId", "").strip() == name:
                return properties.get("groupId", "").strip(), name, properties.get("version", version).strip()
    return "", name, version


if __name__ == "__main__":
    raise SystemExit(main())
