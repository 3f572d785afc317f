"""The text of query files: YAML with places, the table of keys, words that are nearly right."""
