"""What the outside sees: every metric in one table, logs as JSON lines, Spark's progress read into values. Decides nothing."""
