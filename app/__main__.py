"""``python3 -m app COMMAND``: make sure that the environment stands, then run the command in it.

Standard library only, and no syntax newer than Python 3.6 in this file: older ones must get a sentence, not a stack trace.
"""

import os
import sys
import time

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit("cep needs Python 3.11 or newer, this is %d.%d (%s)" % (*sys.version_info[:2], sys.executable))  # noqa: UP031


def main() -> None:
    """Enter the environment and hand over to the command line."""
    from importlib import import_module  # noqa: PLC0415

    from app.bootstrap.environment import RUN_LOCK, enter  # noqa: PLC0415
    from app.bootstrap.failure import SetupError  # noqa: PLC0415

    os.environ.setdefault("CEP_STARTED_AT", str(time.time()))  # the demo tells how long it took altogether
    try:
        enter(RUN_LOCK, "app", sys.argv[1:])
    except SetupError as error:
        print(error, file=sys.stderr)
        sys.exit(69)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(import_module("app.cli.main").main())


if __name__ == "__main__":
    main()
