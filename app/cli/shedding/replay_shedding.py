"""``cep replay --shedder``: who sheds, with which models, and what the queries find then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.asc.selection import Selection
from app.bucket.ingress import Gate
from app.bucket.matching import Found
from app.bucket.recording import Recording
from app.cli.inputs.events import ReplayInput
from app.cli.shedding.shed_queries import chosen_shedders, shed_query
from app.cli.shedding.train import SUFFIX
from app.control.messages.directives import Directive, QueryShedding
from app.errors import CepError
from app.evaluation.shed_query import ShedQuery, plans_of
from app.evaluation.shedding import match_shedding
from app.pipeline.gate import shedding_gate
from app.query.compile import Compilation
from app.query.plan import Catalog
from shedding.interface import Model
from shedding.model_file import ModelFileError, load, require_query
from shedding.registry import METHODS, unlearned


@dataclass(frozen=True, slots=True)
class Shed:
    """How all queries shed.

    Attributes:
        shedder: None: each query's model says.
        drop_ratio: greater than 0.
        model: a model's file, or a folder with <query>.model.
    """

    shedder: str | None
    drop_ratio: float
    model: Path | None

    @property
    def by_identity(self) -> bool:
        """Whether nothing but the event itself decides, so that any stream, sorted or not, can be shed as it arrives."""
        return self.shedder in ("none", "random", "universe")


def chosen_shedding(shedder: str | None, drop_ratio: float | None, model: Path | None) -> Shed | None:
    """What the options ask for; None when nothing is to be dropped.

    Raises:
        CepError: options that do not go together.
    """
    if shedder is not None:
        chosen_shedders([shedder])
    if shedder is not None and METHODS[shedder].learns and model is None:
        raise CepError(f'"{shedder}" needs a model\nhint: cep train --shedder {shedder} writes one; give it with --model')
    if shedder is None and model is None and drop_ratio:
        raise CepError(f"--drop-ratio needs --shedder or --model\nhint: there are {', '.join(METHODS)}")
    if shedder is not None and not METHODS[shedder].learns and model is not None:
        raise CepError(f'"{shedder}" needs no model: leave --model out')
    if drop_ratio is None and (model is not None or shedder not in (None, "none")):
        raise CepError("nothing is dropped without --drop-ratio\nhint: the share of the events that is to go, as --drop-ratio 0.5")
    return Shed(shedder, drop_ratio, model) if (shedder is not None or model is not None) and drop_ratio else None


def shed_recording(compiled: Compilation, source: ReplayInput, shed: Shed) -> Recording:
    """Matches everything while the models shed.

    Raises:
        CepError: a query, or a model, that does not fit.
    """
    found: list[Found] = []
    for number, plan in enumerate(compiled.catalog.plans):
        query = compiled.query(plan.name)
        own = None if query is None else shed_query(query, source)
        if own is None:
            raise _not_shed(plan.name)
        if source.by_arrival(plan):
            raise CepError(
                f"query {plan.name}: its stream's events may be late or come in trusted order; a model sheds sorted recordings only"
            )
        model = _model(own, shed, several=len(compiled.catalog.plans) > 1)
        try:
            parts = match_shedding(own.plan_for(model.manifest.method), own.batch, model, shed.drop_ratio)
        except ValueError as error:
            raise CepError(f"query {plan.name}: {error}") from error
        found += [replace(one, query=number) for one in parts]
    return Recording(found)


def gate_of(shed: Shed) -> Callable[[Catalog, Selection], Gate | None]:
    """Decides by identities alone, as the ingress does."""

    def made(catalog: Catalog, selection: Selection) -> Gate | None:
        orders = {plan.name: QueryShedding(shed.drop_ratio, shed.shedder or "none") for plan in catalog.plans}
        return shedding_gate(catalog, selection, Directive(0, shedding=orders))

    return made


def require_models(shed: Shed, compiled: Compilation) -> None:
    """Looks whether all queries can shed so, and their models can be loaded, before there are any events.

    Raises:
        CepError: one cannot.
    """
    plans = () if shed.by_identity else compiled.catalog.plans
    for plan in plans:
        query = compiled.query(plan.name)
        if query is None or plans_of(query) is None:
            raise _not_shed(plan.name)
        if shed.model is not None:
            _loaded(shed.model, plan.name, several=len(plans) > 1)


def _not_shed(name: str) -> CepError:
    return CepError(f"query {name}: only patterns over events shed here\nhint: leave it out, or leave --shedder out")


def _file(model: Path, name: str, *, several: bool) -> Path:
    return model / f"{name}{SUFFIX}" if several or model.is_dir() else model


def _loaded(given: Path, name: str, *, several: bool) -> Model[Any]:
    file = _file(given, name, several=several)
    try:
        return load(file)
    except ModelFileError as error:
        raise CepError(f"query {name}: {error}") from error
    except OSError as error:
        hint = "with several queries --model is a folder of <query>.model" if several and not given.is_dir() else "cep train writes one"
        raise CepError(f"{file}: {(error.strerror or 'cannot be read').lower()}\nhint: {hint}") from error


def _model(query: ShedQuery, shed: Shed, *, several: bool) -> Model[Any]:
    if shed.model is None:
        assert shed.shedder is not None  # noqa: S101 - one of the two is given
        return unlearned(shed.shedder)
    file = _file(shed.model, query.plan.name, several=several)
    model = _loaded(shed.model, query.plan.name, several=several)
    try:
        require_query(file, model.manifest, query.plan_for(model.manifest.method).fingerprint)
    except ModelFileError as error:
        raise CepError(f"query {query.plan.name}: {error}") from error
    if shed.shedder is not None and model.manifest.method != shed.shedder:
        raise CepError(f"{file}: a model of {model.manifest.method}, not of {shed.shedder}")
    return model
