# ruff: noqa: INP001 - a program of the image, in no package
"""Deletes the executors of an earlier run of this driver, before Spark starts: standard library only.

A driver's *container* that starts again in its pod leaves the pods of its last executors behind (SPARK-37856), and as they belong to
the pod, nothing collects them. There is one driver per release, so whatever carries the selector now is old.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SECONDS = 10


def main(selector: str) -> int:
    """Asks the API server to delete them all at once; a failure is told and ends nothing: Spark will tell more."""
    if not ACCOUNT.is_dir():
        return 0
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    namespace, token = ((ACCOUNT / name).read_text(encoding="ascii") for name in ("namespace", "token"))
    query = urllib.parse.urlencode({"labelSelector": selector})
    url = f"https://{f'[{host}]' if ':' in host else host}:{port}/api/v1/namespaces/{namespace}/pods?{query}"
    request = urllib.request.Request(url, method="DELETE", headers={"Authorization": f"Bearer {token}"})
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt")))
    )
    try:
        with opener.open(request, timeout=SECONDS) as response:
            deleted = [pod["metadata"]["name"] for pod in json.load(response).get("items", ())]
    except (urllib.error.URLError, OSError, ValueError) as error:
        log(level="warning", event="executors of an earlier run could not be deleted", reason=str(error))
        return 0
    if deleted:
        log(level="info", event="executors of an earlier run deleted", pods=deleted)
    return 0


def log(**fields: object) -> None:
    """One JSON line, as the application's own."""
    print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
