"""States as bytes: how they begin, their arrays, and how partitions move from one state to another."""
