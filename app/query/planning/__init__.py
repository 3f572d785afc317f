"""Resolved → plan (`app.query.plan`): every predicate where it is cheapest; and what follows from a plan alone."""
