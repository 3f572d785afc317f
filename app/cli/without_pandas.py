"""Arrow imports pandas when it makes its first array, only to know what a Series is: 1.3 s of CPU, for commands that have none.

It asks once: where the answer is no, it goes on without, and asks again when somebody converts something to pandas.
"""

from __future__ import annotations

import sys

import pyarrow as pa


class _NotNow:
    """Stands first among those who are asked where a module is."""

    @staticmethod
    def find_spec(name: str, *_: object, **__: object) -> None:
        """Nothing, as everybody says who does not know a module; pandas is not there."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def leave_pandas_out() -> None:
    """Lets Arrow ask now, while pandas cannot be found; nothing happens where pandas is imported already."""
    if "pandas" in sys.modules:
        return
    not_now = _NotNow()
    sys.meta_path.insert(0, not_now)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(not_now)
