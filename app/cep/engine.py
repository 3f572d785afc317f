"""The SASE engine, contract (the implementation follows):

    engine = Engine(plan, EngineOptions())
    matches, tally = engine.feed(batch, items, watermarks)
        # batch: EventBatch with the columns plan.columns, rows in the order in which they are to be processed (total order, or the
        #        arrival order of a trusted stream); items: uint64 (events,), bit i set = passes type test and tests of plan.items[i];
        # watermarks: Watermarks(default_ms, by_source={source: ms}): after the batch; negated ends whose time is reached fire.
    engine.snapshot() -> bytes                      # versioned, with the plan's fingerprint
    Engine.restore(plan, data, options) -> Engine   # SnapshotError when it does not fit
    engine.validate()                               # invariants; tests call it after every step
"""
