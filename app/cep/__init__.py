"""Pattern queries: pure, arrays in, matches as columns out. `engine` says what every way of matching looks like: `stacks`, `runs`, `chains`."""
