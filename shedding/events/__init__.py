"""Shedders that drop events before matching, one file each."""
