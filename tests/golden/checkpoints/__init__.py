"""Whole checkpoints that versions of the application have left behind, as archives that stay: every later version goes on from each.

``python -m tests.golden.checkpoints NAME`` writes ``NAME.tar.xz``, by hand, when a stored format changes. Archives are never written again once a
release could have written such a checkpoint. An archive holds everything that the application needs: settings, queries, schemas, the checkpoint, the
recorded topics that are still to come, and what is to be found.
"""
