"""Why a stream does not give a match: the automaton played in plain Python, with a reason for everything that does not happen."""
