"""Models of shedders, learned beside the stream: the newest events → a model → the checkpoint → the next deployment."""
