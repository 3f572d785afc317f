"""The pattern of a plan of runs as an automaton that is made while it runs: terms, states, predicates over slots. No kernel is needed for it."""
