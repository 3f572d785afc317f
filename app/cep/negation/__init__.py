"""What all ways of matching ask of negated events; where they look for them is their own (`kernels_negation` of `stacks` and `runs`)."""
