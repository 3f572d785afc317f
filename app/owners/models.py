"""Models of shedders: read where `cep train` put them, and carried to the tasks inside the deployment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from app.control.models_in_use import ModelInUse
from app.errors import Finding
from app.query.compile import Compilation
from app.query.plan import Plan
from shedding.interface import Model
from shedding.model_file import ModelFileError, read
from shedding.registry import METHODS

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


def read_models(compiled: Compilation, folder: Path | None) -> tuple[dict[str, StoredModel], list[Finding]]:
    """By query, the models of those whose shedders learn and that have one; and what is wrong with the others' files."""
    models: dict[str, StoredModel] = {}
    findings: list[Finding] = []
    for plan in compiled.catalog.plans:
        if folder is None or not METHODS[plan.shedding.shedder].learns:
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
            findings.append(_finding(compiled, plan, str(error).partition("\nhint: ")[0], error.hint))
        else:
            if method != plan.shedding.shedder:
                findings.append(
                    _finding(compiled, plan, f"{path}: a model of {method}", f"write shedder: {method}, or train another model")
                )
            models[plan.name] = StoredModel(str(path), sha256(content).hexdigest(), content)
    return models, findings


def _finding(compiled: Compilation, plan: Plan, message: str, hint: str | None = None) -> Finding:
    query = compiled.query(plan.name)
    return Finding(f'query "{plan.name}": {message}', None if query is None else query.document.location("shedding"), hint)


def as_it_sheds(plan: Plan, models: Mapping[str, StoredModel]) -> Plan:
    """The plan with the shedder that it really has: `WITHOUT_MODEL` in place of one that has nothing to go by."""
    if not METHODS[plan.shedding.shedder].learns or plan.name in models:
        return plan
    return replace(plan, shedding=replace(plan.shedding, shedder=WITHOUT_MODEL))


@lru_cache(maxsize=256)
def restored(stored: StoredModel) -> Model[Any]:
    """The model; kept, since every batch asks."""
    return read(stored.content, Path(stored.file))


def models_in_use(plans: Iterable[Plan], models: Iterable[StoredModel | None]) -> dict[str, ModelInUse]:
    """By running query, the model that it sheds by.

    Args:
        plans: of a deployment.
        models: in the same order.
    """
    pairs = zip(plans, models, strict=True)
    return {plan.name: _in_use(model) for plan, model in pairs if model is not None and plan.draining is None}


def _in_use(stored: StoredModel) -> ModelInUse:
    manifest = restored(stored).manifest
    return ModelInUse(
        manifest.method, stored.file, stored.digest, _written_at_ms(stored), manifest.observed, manifest.first_ms, manifest.last_ms
    )


def _written_at_ms(stored: StoredModel) -> int | None:
    try:
        same = sha256(Path(stored.file).read_bytes()).hexdigest() == stored.digest
        return int(Path(stored.file).stat().st_mtime * 1000) if same else None
    except OSError:
        return None
