"""Shedders that drop tuples of temporal queries when memory holds fewer than the window, one file each."""
