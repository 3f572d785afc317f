"""Text → tree: what a query file says, word for word, before any name is known; and back to text."""
