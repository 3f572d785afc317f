"""The runs evaluator: a table of partial matches advanced by transition tables; for everything that is not a plain sequence."""
