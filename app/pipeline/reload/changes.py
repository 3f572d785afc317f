"""What changes between two catalogs, in words for the log."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.query.plan import Catalog, Plan
from app.query.planning.fingerprint import fingerprint


@dataclass(frozen=True, slots=True)
class Changes:
    """Names of queries; of renamed ones the old and the new name. A renamed query is another one: its state and its identities begin anew.

    Attributes:
        drained: whose old version has finished.
        adjusted: whose state goes on, though something beside their meaning (title, output, shedding, model) is new.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    disabled: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    adjusted: tuple[str, ...] = ()

    def told(self) -> dict[str, list[str]]:
        """What there is, for a line of the log."""
        named = {
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "renamed": tuple(f"{old} → {new}" for old, new in self.renamed),
            "disabled": self.disabled,
            "drained": self.drained,
            "adjusted": self.adjusted,
        }
        return {what: list(names) for what, names in named.items() if names}


def changes(before: Catalog, after: Catalog, disabled: frozenset[str] = frozenset(), trained: frozenset[str] = frozenset()) -> Changes:
    """What is new.

    Args:
        before: what runs.
        after: what is to run.
        disabled: queries that their files switch off.
        trained: queries with another model than before.
    """
    old, new = ({plan.name: plan for plan in catalog.current} for catalog in (before, after))
    gone, come = ({name: one[name] for name in sorted(set(one) - set(other))} for one, other in ((old, new), (new, old)))
    renamed = _renamed({name: plan for name, plan in gone.items() if name not in disabled}, come)
    left, found = {one for one, _ in renamed}, {one for _, one in renamed}
    both = sorted(set(old) & set(new))
    return Changes(
        added=tuple(name for name in come if name not in found),
        changed=tuple(name for name in both if old[name].fingerprint != new[name].fingerprint),
        removed=tuple(name for name in gone if name not in left and name not in disabled),
        renamed=renamed,
        disabled=tuple(name for name in gone if name in disabled),
        drained=tuple(plan.name for plan in before.plans if plan.draining is not None and _gone(plan, after)),
        adjusted=tuple(
            name for name in both if old[name].fingerprint == new[name].fingerprint and (old[name] != new[name] or name in trained)
        ),
    )


def _renamed(gone: dict[str, Plan], come: dict[str, Plan]) -> tuple[tuple[str, str], ...]:
    """Queries that are the same but for their names."""
    by_meaning = {_meaning(plan): name for name, plan in gone.items()}
    pairs = ((by_meaning.pop(_meaning(plan), None), name) for name, plan in come.items())
    return tuple((old, new) for old, new in pairs if old is not None)


def _meaning(plan: Plan) -> str:
    return fingerprint(replace(plan, name="", version=0))


def _gone(plan: Plan, catalog: Catalog) -> bool:
    return all((one.name, one.fingerprint) != (plan.name, plan.fingerprint) for one in catalog.plans)
