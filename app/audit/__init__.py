"""Verdicts and estimates of what shedding cost; pure. Comes with the issue on audits."""
