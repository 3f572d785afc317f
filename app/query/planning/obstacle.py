"""What keeps a plan from being run in a way that only some can be run in."""


class Obstacle(Exception):  # noqa: N818 - an answer, caught by who asks
    """The first thing of it, in words."""
