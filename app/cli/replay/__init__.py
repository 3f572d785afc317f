"""``cep replay``: queries over files, composite events as files."""
