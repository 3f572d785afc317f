"""Commands for those who shed: train, evaluate."""
