"""Commands for those who write queries: validate, test, explain."""
