"""Stored things of every format there has been, as files that stay: ``python -m tests.golden.formats`` writes those of the newest.

Files of formats that a release has written are never written again: what they test is that every later version goes on from them.
"""
