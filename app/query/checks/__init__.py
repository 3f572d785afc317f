"""What is valid but will hardly do what its author wants, and what is too large for the engines."""
