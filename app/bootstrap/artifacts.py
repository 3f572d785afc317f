"""Java artifacts in the cache: Spark's Kafka connector, the embedded broker, the embedded registry.

Versions and checksums: ``artifacts.toml``. They are fetched by the Ivy that the pyspark wheel brings, listed one by one: no pom is read.
A set becomes visible by one rename, after all its checksums were right; an interrupted fetch keeps the artifacts it has.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from app.bootstrap.failure import SetupError
from app.bootstrap.java import find_java
from app.bootstrap.lines import child_lines
from app.bootstrap.places import cache_folder
from app.bootstrap.progress import Progress, say, step
from app.bootstrap.turn import exclusive

_PINS = Path(__file__).with_name("artifacts.toml")
OPTIONAL = frozenset({"s3"})
"""Sets that are fetched only by who needs them."""
_ATTEMPTS = 3
"""A dropped connection must not end a newcomer's first minutes; Ivy itself does not retry."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of a Maven repository, pinned."""

    group: str
    name: str
    version: str
    size: int
    sha256: str
    classifier: str = ""
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        """The name that Ivy's retrieve pattern gives it."""
        return f"{self.name}-{self.version}{'-' + self.classifier if self.classifier else ''}.{self.extension}"

    def as_ivy(self) -> str:
        """The dependency element of an ``ivy.xml``."""
        classifier = f" m:classifier={quoteattr(self.classifier)}" if self.classifier else ""
        kind = quoteattr(self.extension)
        return (
            f"<dependency org={quoteattr(self.group)} name={quoteattr(self.name)} rev={quoteattr(self.version)} transitive='false'>"
            f"<artifact name={quoteattr(self.name)} type={kind} ext={kind}{classifier}/></dependency>"
        )


def connector_jars() -> list[Path]:
    """The jars that give Spark its Kafka source and sink; fetched if they are not in the cache."""
    return sorted(_folder("connector").glob("*.jar"))


def s3_jars() -> list[Path]:
    """The jars that give Spark's driver its file system for S3; fetched if they are not in the cache."""
    return sorted(_folder("s3").glob("*.jar"))


def broker_jars() -> list[Path]:
    """The jars of the embedded Kafka broker; fetched if they are not in the cache."""
    return sorted(_folder("broker").glob("*.jar"))


def registry_jar() -> Path:
    """The runnable jar of the embedded schema registry (its libraries lie beside it); fetched if it is not in the cache."""
    return next(_folder("registry").glob("*-runner.jar"))


def fetch_all() -> None:
    """Everything that the demo and the tests need, side by side, so that they run without a network afterwards."""
    wanted = sorted(name for name in pins().keys() - OPTIONAL if not is_there(name))
    if not wanted:
        return
    find_java()  # first of all, or each of them would fetch one
    with ThreadPoolExecutor(len(wanted)) as threads:
        for done in [threads.submit(_folder, name) for name in wanted]:
            done.result()


def is_there(name: str) -> bool:
    """Whether a set is in the cache."""
    return _place(name).is_dir()


@functools.cache
def pins() -> dict[str, tuple[Artifact, ...]]:
    """The pinned artifacts of every set."""
    with _PINS.open("rb") as file:
        return {name: tuple(Artifact(**entry) for entry in entries) for name, entries in tomllib.load(file).items()}


def _place(name: str) -> Path:
    key = hashlib.sha256(repr(pins()[name]).encode()).hexdigest()[:12]
    return cache_folder() / "artifacts" / f"{name}-{key}"


def _folder(name: str) -> Path:
    wanted, folder = pins()[name], _place(name)
    if not folder.is_dir():
        with exclusive(cache_folder() / "artifacts" / f"{name}.lock"):
            if not folder.is_dir():
                _make(name, wanted, folder)
    return folder


def _make(name: str, wanted: tuple[Artifact, ...], folder: Path) -> None:
    work = folder.with_name(folder.name + ".partial")
    fetched = work / "fetched"
    megabytes = sum(artifact.size for artifact in wanted) / 1e6
    count = f"{len(wanted)} Java artifacts" if len(wanted) > 1 else "1 Java artifact"
    with step(name, f"{count}, {megabytes:.0f} MB") as progress:
        for attempt in range(1, _ATTEMPTS + 1):
            problem = _run_ivy(wanted, work, fetched, progress)
            missing = [artifact.file_name for artifact in wanted if not (fetched / artifact.file_name).is_file()]
            if not missing:
                break
            if attempt < _ATTEMPTS:
                say(f"… {name}: {len(missing)} artifacts missing, trying again")
        else:
            raise SetupError(
                f"cannot fetch {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}: {problem}",
                "without a network a filled cache is needed (CEP_CACHE); a mirror is told by an Ivy settings file in CEP_IVY_SETTINGS",
            )
        _check(wanted, fetched, work)
        _unpack_archives(wanted, fetched)
        fetched.rename(folder)
        shutil.rmtree(work, ignore_errors=True)


def _run_ivy(wanted: tuple[Artifact, ...], work: Path, fetched: Path, progress: Progress) -> str:
    """One run of Ivy; returns its last complaint. What it fetched before is in its own cache below ``work``."""
    work.mkdir(parents=True, exist_ok=True)
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="cep" module="artifacts"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(artifact.as_ivy() for artifact in wanted)}</dependencies></ivy-module>",
        encoding="utf-8",
    )
    # No poms: some parents of the registry's pom cannot be had everywhere, and half of the requests fall away. No sha1 files: we know better sums.
    (work / "settings.xml").write_text(
        '<ivysettings><property name="ivy.checksums" value=""/><settings defaultResolver="central"/>'
        '<resolvers><ibiblio name="central" m2compatible="true" usepoms="false" useMavenMetadata="false"/></resolvers></ivysettings>',
        encoding="utf-8",
    )
    java = find_java()
    settings = os.environ.get("CEP_IVY_SETTINGS") or str(work / "settings.xml")
    command = [java.command, "-Xmx256m", *java.trust_options(), f"-Divy.default.ivy.user.dir={work / 'ivy'}", "-cp", str(_ivy_jar())]
    command += ["org.apache.ivy.Main", "-settings", settings, "-ivy", str(work / "ivy.xml")]
    command += ["-retrieve", f"{fetched}/[artifact]-[revision](-[classifier]).[ext]"]
    problem, done = "", 0
    with child_lines(command) as (process, output):
        for line in output:
            if "[SUCCESSFUL" in line:
                done += 1
                progress.tell(f"{done} of {len(wanted)}, {_size_of(work / 'ivy') / 1e6:.0f} MB")
            elif line.startswith("downloading"):
                progress.tell(f"{done} of {len(wanted)}, {line.rsplit('/', 1)[-1].removesuffix(' ...')}")
            elif "not found" in line or "Exception" in line or "[FAILED" in line or "error" in line.lower():
                problem = line
    return problem or f"Ivy ended with {process.returncode}"


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _ivy_jar() -> Path:
    """The Ivy inside the pyspark wheel."""
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise SetupError("pyspark is not installed, so there is no Ivy to fetch Java artifacts with", "start with `python3 -m app`")
    return found[-1]


def _check(wanted: tuple[Artifact, ...], fetched: Path, work: Path) -> None:
    for artifact in wanted:
        with (fetched / artifact.file_name).open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != artifact.sha256:
            shutil.rmtree(work, ignore_errors=True)
            raise SetupError(
                f"{artifact.file_name} has checksum {found}, expected {artifact.sha256}; it was thrown away",
                "somebody between here and the repository changes files; a new run fetches it again",
            )


def _unpack_archives(wanted: tuple[Artifact, ...], fetched: Path) -> None:
    for artifact in wanted:
        if artifact.extension != "tar.gz":
            continue
        archive = fetched / artifact.file_name
        with tarfile.open(archive) as tar:
            tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and later; the checksum was right anyway
            tar.extractall(fetched)  # noqa: S202
        archive.unlink()
