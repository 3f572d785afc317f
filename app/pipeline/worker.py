"""What a Python worker of Spark has at hand for good, and what its garbage collections therefore need not look at."""

from __future__ import annotations

import gc
from itertools import count

FIRST_TASKS = 6
"""By then a worker has its plans, decoders and connections."""

_tasks = count(1)


def freeze_garbage() -> None:
    """To be called at the end of every task.

    A worker collects all garbage after every task, before it takes the next one: 40 ms with everything that is imported, 20 ms with what a fork of
    a frozen daemon imports itself, four times per micro-batch. What is there after the first tasks stays, so it is frozen.
    """
    if next(_tasks) <= FIRST_TASKS:
        gc.collect()
        gc.freeze()
