"""Tree → resolved: every name has become a binding or an attribute with a kind."""
