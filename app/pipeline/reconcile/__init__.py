"""``cep reconcile``: what the application would have found without shedding, against what it published; the difference is published (`ops/decisions/0038`)."""
