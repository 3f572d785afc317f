"""The only floor that knows Spark: assemble, source, ingress, CEP stage, egress."""
