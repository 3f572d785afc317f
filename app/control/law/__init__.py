"""The control loop: finished batches in, drop ratios out. No clock, no Spark: virtual time and the application run the same."""
