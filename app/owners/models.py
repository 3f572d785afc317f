"""Models of shedders: read where `cep train` or the application itself put them, and carried to the tasks inside the deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from app.errors import Finding
from app.features.runnable import not_run
from app.observe.logs import get_logger
from app.owners.model_store import Learned, ModelStore
from app.query.compile import Compilation
from app.query.plan import Plan
from app.query.text.keys import AUTO
from shedding.interface import Model
from shedding.model_file import ForeignModelError, ModelFileError, read
from shedding.registry import METHODS

log = get_logger(__name__)

SUFFIX = ".model"
WITHOUT_MODEL = "random"
"""Who sheds for a query whose shedder has no model yet."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model's file.

    Attributes:
        file: where it was, for messages.
        digest: SHA-256 of the content; stands for it wherever models are compared, as in the deployment's fingerprint.
        content: as it was.
    """

    file: str
    digest: str
    content: bytes = field(repr=False, compare=False)


def learns(plan: Plan) -> bool:
    """Whether the shedder that the query names goes by a model."""
    return plan.shedding.shedder == AUTO or METHODS[plan.shedding.shedder].learns


def read_models(compiled: Compilation, folder: Path | None, learned: ModelStore) -> tuple[dict[str, StoredModel], list[Finding]]:
    """By query, the models of those whose shedders learn and that have one; and what is wrong with the others' files.

    Args:
        compiled: the queries.
        folder: where people put models; one that is there is used, whatever was learned.
        learned: what the application has learned; what is for another shedder, or for a query that has changed, counts as not there.
    """
    models, findings = _given_models(compiled, folder)
    plans = {plan.name: plan for plan in compiled.catalog.plans if learns(plan)}
    if set(plans) - set(models):
        models |= {name: stored for name, stored in _learned_models(plans, learned).items() if name not in models}
    return models, findings


def _learned_models(plans: Mapping[str, Plan], learned: ModelStore) -> dict[str, StoredModel]:
    found = {}
    for name, own in learned.in_use().items():
        plan = plans.get(name)
        if plan is not None and fits(own, plan) and (content := learned.content(own)) is not None:
            stored = StoredModel(own.file, own.digest, content)
            try:
                restored(stored)
            except ModelFileError as error:  # of a newer version: this one sheds at random until it has learned its own
                log.warning("a learned model cannot be read; another one will be learned", query=name, reason=str(error))
            else:
                found[name] = stored
    return found


def fits(learned: Learned, plan: Plan) -> bool:
    """Whether a model is for the query as it is now; what its panes were, earlier versions did not note."""
    return (
        learned.fingerprint == plan.fingerprint
        and plan.shedding.shedder in (AUTO, learned.shedder)
        and learned.pane in (None, pane_of(plan))
    )


def pane_of(plan: Plan) -> str:
    """The length of panes that the query asks for, as text that says when it has changed.

    >>> from app.query.plan import Shedding, Within
    >>> from types import SimpleNamespace
    >>> pane_of(SimpleNamespace(shedding=Shedding(pane=Within(10, "events")))), pane_of(SimpleNamespace(shedding=Shedding()))
    ('10 events', '')
    """
    pane = plan.shedding.pane
    return "" if pane is None else f"{pane.size} {pane.unit}"


def _given_models(compiled: Compilation, folder: Path | None) -> tuple[dict[str, StoredModel], list[Finding]]:
    models: dict[str, StoredModel] = {}
    findings: list[Finding] = []
    for plan in compiled.catalog.plans:
        if folder is None or not learns(plan):
            continue
        path = folder / f"{plan.name}{SUFFIX}"
        try:
            content = path.read_bytes()
            method = read(content, path, query=plan.fingerprint).manifest.method
        except FileNotFoundError:
            continue
        except OSError as error:
            findings.append(_finding(compiled, plan, f"{path}: {(error.strerror or 'cannot be read').lower()}"))
        except ModelFileError as error:
            hint = error.hint
            if isinstance(error, ForeignModelError) and plan.shedding.shedder == AUTO:
                hint = f"{hint}, or write into it the shedder that cep train chose"
            findings.append(_finding(compiled, plan, str(error).partition("\nhint: ")[0], hint))
        else:
            if plan.shedding.shedder not in (AUTO, method):
                findings.append(
                    _finding(compiled, plan, f"{path}: a model of {method}", f"write shedder: {method}, or train another model")
                )
            elif why := not_run(plan, method):
                findings.append(_finding(compiled, plan, f"{path}: {why}", "let cep train choose (--shedder auto), or take the file away"))
            models[plan.name] = StoredModel(str(path), sha256(content).hexdigest(), content)
    return models, findings


def _finding(compiled: Compilation, plan: Plan, message: str, hint: str | None = None) -> Finding:
    query = compiled.query(plan.name)
    return Finding(f'query "{plan.name}": {message}', None if query is None else query.document.location("shedding"), hint)


def as_it_sheds(plan: Plan, models: Mapping[str, StoredModel]) -> Plan:
    """The plan with the shedder that it really has: that of its model, and `WITHOUT_MODEL` in place of one that has nothing to go by."""
    if not learns(plan):
        return plan
    stored = models.get(plan.name)
    shedder = WITHOUT_MODEL if stored is None else restored(stored).manifest.method
    return plan if shedder == plan.shedding.shedder else replace(plan, shedding=replace(plan.shedding, shedder=shedder))


@lru_cache(maxsize=256)
def restored(stored: StoredModel) -> Model[Any]:
    """The model; kept, since every batch asks."""
    return read(stored.content, Path(stored.file))


def told_of(plans: Iterable[Plan], models: Iterable[StoredModel | None]) -> dict[str, dict[str, Any]]:
    """By query, what people are told of its model (`app.control.running_catalog.RunningCatalog.models`)."""
    found = {}
    for plan, stored in zip(plans, models, strict=True):
        if stored is not None and plan.draining is None:
            known = restored(stored).manifest
            found[plan.name] = {
                "method": known.method,
                "file": stored.file,
                "digest": stored.digest,
                "events": known.observed,
                "first_ms": known.first_ms,
                "last_ms": known.last_ms,
            }
    return found
