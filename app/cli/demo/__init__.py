"""``cep demo``: everything on this machine."""
