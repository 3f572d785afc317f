"""What runs in the driver beside Spark: directives, watchdogs, idle sources and heartbeats, shed reports, HTTP.

Decisions are pure (clock and observations are passed in); only `plane`, the `server`, `messages.batch_log` and the writers touch the world.
"""
