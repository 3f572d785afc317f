"""Commands that make, send and record events."""
