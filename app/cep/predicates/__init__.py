"""Predicates: compiled to programs, and evaluated."""
