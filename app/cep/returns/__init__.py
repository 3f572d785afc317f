"""Return fields: from bound events to columns."""
