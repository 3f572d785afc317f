"""The page at ``/``: what the application does, for people with a browser. It asks the floors below and changes nothing."""
