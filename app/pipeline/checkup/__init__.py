"""Is all there that the application needs? For `cep doctor`; what is asked is what a start asks, and beyond. Nothing is changed but one heartbeat that is written."""
