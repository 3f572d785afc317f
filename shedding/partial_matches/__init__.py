"""Shedders that drop partial matches, or hide events from some of them; one file each."""
