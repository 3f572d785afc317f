"""``cep explain``: every representation of a query as text, diagram and JSON."""
