"""Whether a host's name or address is this machine's alone."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address


def is_loopback(host: str | None) -> bool:
    """Whether nobody but this machine is reached, or can reach us, by it: names are not resolved, so of these ``localhost`` alone.

    >>> [is_loopback(one) for one in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")]
    [True, True, True, True, True]
    >>> [is_loopback(one) for one in ("", None, "0.0.0.0", "10.0.0.1", "localhost.example.com", "127.example.com", "::12")]
    [False, False, False, False, False, False, False]
    """
    if not host:
        return False
    with suppress(ValueError):
        return ip_address(host.strip("[]")).is_loopback
    return host.lower() == "localhost"
