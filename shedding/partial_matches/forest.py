"""Trees made ready to be walked by many partial matches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shedding.events.gspice_trees import Trees


class Forest(NamedTuple):
    """Each walk takes as many steps as its tree is deep, and stays in the leaf that it has reached: the processor need not guess where walks end, and takes the first steps of the next ones before.

    With numbers without sign (which count from no end) it takes 44 instead of 145 us to ask ten trees of depth 5 about 348 partial matches.

    Attributes:
        feature: uint32 (nodes,), what is asked for; 0 in a leaf.
        child: uint32 (nodes,), where to go when the feature is at most the threshold, a leaf itself; the other way is the node after it.
        threshold: float64 (nodes,), infinite in a leaf.
        value: float64 (nodes,), of a leaf.
        roots: uint32 (trees,).
        depth: uint32 (trees,), steps to the deepest leaf.
    """

    feature: NDArray[np.uint32]
    child: NDArray[np.uint32]
    threshold: NDArray[np.float64]
    value: NDArray[np.float64]
    roots: NDArray[np.uint32]
    depth: NDArray[np.uint32]

    @staticmethod
    def of(trees: Trees) -> Forest:
        """Ready."""
        leaf = trees.feature < 0
        return Forest(
            np.where(leaf, 0, trees.feature).astype(np.uint32),
            np.where(leaf, np.arange(len(leaf)), trees.child).astype(np.uint32),
            np.where(leaf, np.inf, trees.content),
            np.where(leaf, trees.content, 0.0),
            trees.roots.astype(np.uint32),
            _depths(trees),
        )


def _depths(trees: Trees) -> NDArray[np.uint32]:
    depth = np.zeros(len(trees.roots), np.uint32)
    node, tree = trees.roots, np.arange(len(depth))
    while len(inner := np.flatnonzero(trees.feature[node] >= 0)):
        left, tree = trees.child[node[inner]], tree[inner]
        depth[tree] += 1
        node, tree = np.concatenate([left, left + 1]), np.concatenate([tree, tree])
    return depth
