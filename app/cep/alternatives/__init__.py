"""Matches a pattern with ORs as its alternatives, each a sequence over active instance stacks; their matches are those of the one query."""
