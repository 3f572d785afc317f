"""The quick start's and the tests' world: embedded broker and registry, streams with known ground truth, recordings.

Nothing of this runs in production: whoever has a broker and a registry points ``cep run`` at them.
"""
