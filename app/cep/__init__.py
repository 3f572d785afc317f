"""The engine of sequences (SASE): pure, arrays in, matches as columns out; `engine` is the door."""
