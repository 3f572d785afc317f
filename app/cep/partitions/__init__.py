"""Finds the partition that an event belongs to: one table of open addressing, whatever is kept there."""
