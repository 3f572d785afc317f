"""Files of events: a reader per format yields pieces of constant size, from the bytes of a file to what its events teach about their schema."""
