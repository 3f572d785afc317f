"""The only floor that knows Spark: source, ingress, what the driver does in a batch, driver."""
