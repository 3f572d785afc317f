"""Verdicts on composite events that were found while events were shed, and estimates of what shedding cost; pure."""
