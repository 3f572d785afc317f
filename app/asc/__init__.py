"""Selection (ASC): for every event, the items of all queries that it can be, found in one pass. Pure: arrays in, arrays out."""
