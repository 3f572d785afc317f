"""Events as cells of integers: the tables that kernels share, the numbers that texts have."""
