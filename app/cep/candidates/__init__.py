"""Takes the candidate events of a batch up: cells, derived cells, own conditions, partition keys."""
