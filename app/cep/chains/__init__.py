"""The chains evaluator: partial matches that never split (`app.query.planning.chains`), each one row that is lengthened in place."""
