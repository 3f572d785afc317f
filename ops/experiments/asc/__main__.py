"""Lee and Lee's experiments (JIIS 39(2) 2012, section 6) with the product's selection.

    python -m ops.experiments.asc FOLDER [--quick] [--seeds N] [--only FIGURE [--column TEXT]]

Query sets of table 1, figures 6 to 9, on D1, D2 (generated) and KDD99-int (where ``../shared/data`` has it). Writes plots (PNG, SVG), all figures per seed
(``figures.json``) and what they say of the paper's claims (``verdicts.md``) to FOLDER. The cost is the paper's: constructs on a tuple's way.
Ten seeds take about twenty minutes of one core, with ``--scale 0.4`` seven; ``--quick``, three seeds of small streams, about one.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

from ops.experiments.asc.claims import claims
from ops.experiments.asc.figures import Figures
from ops.experiments.asc.measure import MEASURED, QUICK, Size, sequences
from ops.experiments.asc.plots import draw_all
from ops.experiments.asc.report import as_json, tables, verdicts


def main() -> None:
    """Measures, judges, draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true", help="small streams, three seeds")
    parser.add_argument("--seeds", type=int, help="default 10, or 3")
    parser.add_argument("--first-seed", type=int, default=0, help="others than those with which something was developed")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the tuples of a full run")
    parser.add_argument("--only", type=int, choices=list(MEASURED), help="one figure of the paper")
    parser.add_argument("--column", default="", metavar="TEXT", help="with --only 6: columns whose names have this in them")
    arguments = parser.parse_args()
    if arguments.column and arguments.only != 6:
        parser.error("--column goes with --only 6")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    size, seeds = (QUICK, arguments.seeds or 3) if arguments.quick else (Size().scaled(arguments.scale), arguments.seeds or 10)
    measured = {**MEASURED, 6: partial(sequences, column=arguments.column)}
    figures, begin = Figures(), time.process_time()
    for seed in range(arguments.first_seed, arguments.first_seed + seeds):
        for number, measure in measured.items():
            if arguments.only in {None, number}:
                measure(figures, seed, size, lambda what, at=(seed, number): print(f"seed {at[0]} figure {at[1]}: {what}", flush=True))
    judged = claims(figures)
    figures.write(arguments.folder / "figures.json", seeds=seeds, tuples=size.tuples, claims=as_json(judged))
    draw_all(figures, arguments.folder)
    text = f"{verdicts(judged)}\n{tables(figures)}"
    (arguments.folder / "verdicts.md").write_text(text, encoding="utf-8")
    print(f"\n{text}\n{time.process_time() - begin:.0f} s of the processor")


if __name__ == "__main__":
    main()
