"""What driver, tasks and owners tell each other about a micro-batch, and what of it is written down."""
