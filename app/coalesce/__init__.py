"""Temporal queries: tuples that are valid for a time, merged where equal ones touch, and looked at through sliding windows."""
