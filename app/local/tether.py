"""Run as a script: become another program that dies with its parent. ``python tether.py PARENT_PID COMMAND...``.

A pytest or demo that is killed with SIGKILL cannot clean up; the kernel does it for us (Linux; elsewhere only the ordinary ways remain).
A script of its own and not ``preexec_fn``, which may deadlock in a process with threads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(sys.argv[1]):
            sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606
