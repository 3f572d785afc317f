"""One frozen tree of settings, read from a YAML file and the environment. Knows nothing of what the settings are used for."""
