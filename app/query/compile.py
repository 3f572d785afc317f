"""Query files → catalog: the one entrance for everyone who needs plans.

Purely functional below `load_queries`, which reads the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.errors import Finding, Severity
from app.events.types import StreamSchema
from app.query.checks.lint import lint
from app.query.checks.lint_temporal import lint_temporal
from app.query.checks.refusals import drains, refusals
from app.query.plan import Catalog, Plan, ReturnField
from app.query.planning.planning import plan_query
from app.query.planning.planning_temporal import plan_temporal_query
from app.query.resolved import resolved as r
from app.query.resolved.assumed import assumed_schemas
from app.query.resolved.composites import composite_schema, dependency_order
from app.query.resolved.resolve import resolve_pattern_query
from app.query.resolved.resolve_temporal import resolve_temporal_query
from app.query.resolved.vocabulary import Streams
from app.query.text.source import read_documents
from app.query.tree.document import Document, read_document
from app.query.tree.elements import mentioned_elements
from app.query.tree.inline_tests import QueryTest, read_tests


@dataclass(frozen=True, slots=True)
class Compiled:
    """One query in all its representations; later ones are None where an earlier one has errors."""

    document: Document
    resolved: r.Resolved | r.ResolvedTemporal | None = None
    plan: Plan | None = None
    tests: tuple[QueryTest, ...] = ()
    assumed: bool = False
    """Whether no schemas were known, so that the plan speaks of guessed ones: to be shown, not to be run."""
    read_by: tuple[str, ...] = ()
    """Queries that read its composite events, as far as whoever shows it knows."""

    @property
    def name(self) -> str:
        """The query's name."""
        return self.document.name

    @property
    def enabled(self) -> bool:
        """Whether it is to be run."""
        return bool(self.document.plain("enabled", True))


@dataclass(frozen=True, slots=True)
class Compilation:
    """All queries of some files, and all that is wrong with them."""

    queries: tuple[Compiled, ...] = ()
    findings: tuple[Finding, ...] = ()
    catalog: Catalog = field(default_factory=lambda: Catalog.of(()))
    """The enabled queries that have a plan."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that stop."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings that do not."""
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    def query(self, name: str) -> Compiled | None:
        """The query of this name."""
        return next((query for query in self.queries if query.name == name), None)


def compile_texts(texts: Iterable[tuple[str, str]], streams: Streams | Mapping[str, StreamSchema]) -> Compilation:
    """Compiles query files given as (path, text).

    Args:
        texts: the files; the path is only used in findings.
        streams: the schemas of the streams, by name.
    """
    known = streams if isinstance(streams, Streams) else Streams(streams)
    findings: list[Finding] = []
    documents: list[Document] = []
    for path, text in texts:
        nodes, broken = read_documents(path, text)
        findings.extend(broken)
        documents.extend(document for node in nodes if (document := read_document(node, findings)) is not None)
    _unique_names(documents, findings)
    queries = _compile_all(documents, known, findings)
    findings = sorted(dict.fromkeys(findings), key=_by_place)
    catalog = Catalog.of(tuple(query.plan for query in queries if query.plan is not None and query.enabled))
    return Compilation(queries, tuple(findings), catalog)


def _by_place(finding: Finding) -> tuple[str, int, int]:
    place = finding.location
    return (place.path, place.line, place.column) if place else ("", 0, 0)


def _unique_names(documents: list[Document], findings: list[Finding]) -> None:
    first: dict[str, Document] = {}
    for document in documents:
        if not document.name:
            continue
        other = first.setdefault(document.name, document)
        if other is not document:
            place = other.location("name")
            findings.append(
                Finding(f'two queries are named "{document.name}"', document.location("name"), f"the other is in {place.path}:{place.line}")
            )


def _compile_all(documents: list[Document], streams: Streams, findings: list[Finding]) -> tuple[Compiled, ...]:
    """Queries that read other queries come after them, whatever the order of the files."""
    compiled: dict[int, Compiled] = {}
    known = {**{f"query:{document.name}": composite_schema(document.name, None) for document in documents}, **streams.known}
    for document in dependency_order(documents, findings):
        one = _compile(document, replace(streams, known=known), findings)
        compiled[id(document)] = one
        returns = _returns_of(one)
        if returns is not None or f"query:{one.name}" not in streams.known:
            known[f"query:{one.name}"] = composite_schema(one.name, returns)
    return tuple(compiled[id(document)] for document in documents)


def _returns_of(query: Compiled) -> tuple[ReturnField, ...] | None:
    """The query's fields; None where nothing is known of its streams, and so nothing of the kinds of its fields."""
    if query.resolved is None or not any(schema.types for schema in query.resolved.vocabulary.schemas):
        return None
    return query.resolved.returns


def _compile(document: Document, streams: Streams, findings: list[Finding]) -> Compiled:
    if document.has("coalesce"):
        return _compile_temporal(document, streams, findings)
    own: list[Finding] = []
    before = len(findings)
    resolved = resolve_pattern_query(document, streams, own)
    if resolved is not None:
        own.extend((*refusals(resolved), *drains(document)))
    wrong = any(one.severity is Severity.ERROR for one in own)
    broken = wrong or any(_inside(one, document) for one in findings[:before])
    if resolved is not None:
        own.extend(lint(resolved, whole=not broken))
    schemas = resolved.vocabulary.schemas if resolved is not None else ()
    tests = read_tests(document, schemas, None if wrong else _fields(resolved), findings)
    findings.extend(own)
    if resolved is None or broken:
        return Compiled(document, resolved, None, tests)
    if streams.assume and not any(schema.types for schema in schemas):
        return _assumed(document, resolved, tests)
    return Compiled(document, resolved, plan_query(resolved), tests)


def _compile_temporal(document: Document, streams: Streams, findings: list[Finding]) -> Compiled:
    own: list[Finding] = []
    before = len(findings)
    resolved = resolve_temporal_query(document, streams, own)
    if resolved is not None:
        own.extend((*lint_temporal(resolved), *drains(document)))
    schemas = resolved.vocabulary.schemas if resolved is not None else ()
    broken = any(one.severity is Severity.ERROR for one in own)
    tests = read_tests(document, schemas, resolved.returns if resolved is not None and not broken else None, findings)
    findings.extend(own)
    if resolved is None or broken or any(_inside(one, document) for one in findings[:before]):
        return Compiled(document, resolved, None, tests)
    if streams.assume and not any(schema.types for schema in schemas):
        unfit: list[Finding] = []
        again = resolve_temporal_query(document, Streams(assumed_schemas(resolved, tests)), unfit)
        fitting = resolved if again is None or unfit else again
        return Compiled(document, fitting, plan_temporal_query(fitting), tests, assumed=True)
    return Compiled(document, resolved, plan_temporal_query(resolved), tests)


def _assumed(document: Document, resolved: r.Resolved, tests: tuple[QueryTest, ...]) -> Compiled:
    """The query against schemas guessed from itself; as it is where they do not fit it."""
    unfit: list[Finding] = []
    again = resolve_pattern_query(document, Streams(assumed_schemas(resolved, tests)), unfit)
    if again is None or unfit:
        return Compiled(document, resolved, plan_query(resolved), tests, assumed=True)
    return Compiled(document, again, plan_query(again), tests, assumed=True)


def _fields(query: r.Resolved | None) -> tuple[ReturnField, ...] | None:
    """The return fields that tests can be held against; None where they are not all known."""
    return query.returns if query is not None and query.returns_known else None


def _inside(finding: Finding, document: Document) -> bool:
    """Whether an earlier finding (reading the YAML) belongs to the document."""
    place = finding.location
    if place is None or place.path != document.node.file.path or finding.severity is not Severity.ERROR:
        return False
    start, end = (
        document.node.file.location(document.node.start),
        document.node.file.location(max(document.node.start, document.node.end - 1)),
    )
    return start.line <= place.line <= end.line


def query_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The query files among paths: files as given, of folders all ``*.yaml`` and ``*.yml`` below, sorted.

    Hidden folders are left out: a mounted ConfigMap keeps its files a second time in one (``..2026_11_21…``).
    """
    files: dict[Path, None] = {}
    for path in paths:
        if path.is_dir():
            found = [inner for inner in path.rglob("*.y*ml") if inner.suffix in (".yaml", ".yml") and inner.is_file()]
            found = [inner for inner in found if not any(part.startswith(".") for part in inner.relative_to(path).parts)]
            files.update(dict.fromkeys(sorted(found)))
        else:
            files[path] = None
    return tuple(files)


def elements_in(paths: Iterable[Path]) -> tuple[str, ...]:
    """The elements of arrays and maps that query files and folders speak of. A file that cannot be read is reported where queries are compiled."""
    return mentioned_elements((str(path), _text(path)) for path in query_files(paths))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def read_queries(paths: Iterable[Path], streams: Streams | Mapping[str, StreamSchema]) -> Compilation:
    """Reads and compiles query files and folders."""
    texts: list[tuple[str, str]] = []
    unreadable: list[Finding] = []
    for path in query_files(paths):
        try:
            texts.append((str(path), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError as error:
            unreadable.append(Finding(f"{path}: no UTF-8 text (byte {error.start})", None, "save the file as UTF-8"))
        except OSError as error:
            unreadable.append(Finding(f"{path}: cannot be read: {(error.strerror or 'unknown reason').lower()}"))
    compiled = compile_texts(texts, streams)
    return Compilation(compiled.queries, (*unreadable, *compiled.findings), compiled.catalog)


def load_queries(paths: Iterable[Path], streams: Streams | Mapping[str, StreamSchema]) -> tuple[Catalog, tuple[Finding, ...]]:
    """The catalog of the enabled queries, and all findings; with an error among them the catalog is not to be run."""
    compiled = read_queries(paths, streams)
    return compiled.catalog, compiled.findings
