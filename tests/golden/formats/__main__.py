"""Writes the files of the newest formats: ``python -m tests.golden.formats``. Only before they are released: afterwards a new folder begins."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

from app.owners.deployment import store_deployment
from tests.golden.formats.scenario import CUT, before_the_cut, directive, events, made, summary

FOLDER = Path(__file__).parent / "v1"


def main() -> None:
    """All of them."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    (first, second), batches = made(), events()
    names = [store_deployment(str(FOLDER), one) for one in (first, second)]
    shutil.rmtree(FOLDER / ".drafts")
    (FOLDER / "events.json").write_text("[\n" + ",\n".join(json.dumps(batch) for batch in batches) + "\n]\n", encoding="utf-8")
    world = before_the_cut(first, second, batches)
    (FOLDER / "snapshot.bin").write_bytes(world.bucket.snapshot())
    decided = directive(second, batches, CUT)
    (FOLDER / "directive.json").write_bytes(decided.to_json())
    for number, chunk in enumerate(world.chunks(batches[CUT], decided)):
        (FOLDER / f"chunk-{number}.bin").write_bytes(chunk)
    before, world.found = world.found, Counter()
    world.go_on(batches, CUT)
    plans = [[plan.name, plan.version, plan.fingerprint] for plan in second.catalog.plans]
    expected = {"deployments": names, "plans": plans, "before": summary(before), "after": summary(world.found)}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
