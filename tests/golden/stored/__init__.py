"""Files of a checkpoint as they lie on disk, frames and all, one folder per generation of formats: ``python -m tests.golden.stored vN`` writes the newest.

What such files hold is tested in `tests.golden.formats`; this is about what is around it. Folders of a release are never written again.
"""
