"""The chains evaluator: partial matches that never split (`app.query.chains`), each one row that is lengthened in place."""
