"""Partial matches as a Markov chain with rewards: how likely one completes before its window ends, and how much work it will have been.

Axis names: ``states``, the last one complete; ``bins`` of remaining events, bin k standing for ``k * bin_size`` events.

**Source:** Slo, Bhowmik, Rothermel, pSPICE, IEEE BigData 2019, III-C, equations 2 and 3; as restored in the specification, 3.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """The steps of one query's partial matches.

    Attributes:
        transitions: float64 (states, states), probability of each step when an event comes. A row's rest to 1 is the probability that the match dies.
        step_s: float64 (states,), mean seconds that a step from each state takes.
        seen: bool (states,), whether steps from the state were observed; from others nothing is known, and nothing moves.
    """

    transitions: Floats
    step_s: Floats
    seen: NDArray[np.bool_]


def chain_of(before: NDArray[np.int32], after: NDArray[np.int32], spent_s: Floats, states: int) -> Chain:
    """The chain that observed steps come from.

    Args:
        before: int32 (steps,), states before an event.
        after: int32 (steps,), states after it; negative where the partial match died.
        spent_s: float64 (steps,), seconds.
        states: number of states. The complete one absorbs, and costs nothing, whatever was observed of it.
    """
    alive = after >= 0
    counts = np.bincount(before[alive] * states + after[alive], minlength=states**2).reshape(states, states).astype(np.float64)
    steps = np.bincount(before, minlength=states).astype(np.float64)
    seen = steps > 0
    transitions = np.divide(counts, steps[:, None], out=np.eye(states), where=seen[:, None])
    step_s = np.divide(np.bincount(before, spent_s, minlength=states), steps, out=np.zeros(states), where=seen)
    transitions[-1], step_s[-1] = np.eye(states)[-1], 0.0
    return Chain(transitions, step_s, seen)


def prospects(chain: Chain, bins: int, bin_size: int) -> tuple[Floats, Floats]:
    """Completion probability and remaining processing time for ``0, bin_size, .., bins * bin_size`` remaining events.

    Returns:
        float64 (bins + 1, states), probability to complete (equation 3); float64 (bins + 1, states), seconds (value iteration; rewards by state, as the
        mean of ``R(i, j)`` over j is all that the sum needs).

    The chain of the specification's golden test, two of three equally frequent types still to come:

    >>> third = 1 / 3
    >>> matrix = np.array([[2 * third, third, 0], [0, 2 * third, third], [0, 0, 1]])
    >>> completion, _ = prospects(Chain(matrix, np.zeros(3), np.ones(3, bool)), 2, 5)
    >>> completion[:, 0].round(6).tolist()
    [0.0, 0.539095, 0.895951]
    """
    states = len(chain.step_s)
    augmented = np.zeros(
        (states + 1, states + 1)
    )  # the affine map V -> T V + c as a matrix: its power is bin_size steps of value iteration
    augmented[:states, :states], augmented[:states, states], augmented[states, states] = chain.transitions, chain.step_s, 1.0
    stride = np.linalg.matrix_power(augmented, bin_size)
    completion, seconds = np.zeros((bins + 1, states + 1)), np.zeros((bins + 1, states + 1))
    completion[0, states - 1], seconds[0, states] = 1.0, 1.0
    for k in range(bins):
        completion[k + 1], seconds[k + 1] = stride @ completion[k], stride @ seconds[k]
    return completion[:, :states], seconds[:, :states]
