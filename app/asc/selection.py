"""Adaptive selection: for every event of a batch, the items of all queries that it can be.

Contract (the implementation follows; the issue on ASC brings regions, sequences and adaptivity behind the same names):

    selection = Selection(catalog, stream)          # all items of all queries that read the stream
    selected = selection.select(batch)              # SelectedEvents
    selected.bitmap                                 # uint64 (events, words): bit = selection.bit(query, item)
    selected.relevant                               # rows with a non-empty bitmap, ascending
    rows, items = selected.of_query(query)          # int64 (candidates,), uint64 (candidates,) bit i: may be item i of that query
"""
