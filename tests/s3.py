"""An S3 server for tests: moto's, in a process of its own; the fixtures are known to all tests."""

import itertools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyarrow import fs

_numbers = itertools.count(1)
START_DEADLINE_S = 60
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="session")
def s3_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("s3") / "server.log"


@pytest.fixture
def s3_requests(s3_server: str, s3_log: Path) -> Callable[[], list[str]]:
    """All requests that the server got so far, a line each."""
    return lambda: [line for line in s3_log.read_text().splitlines() if " HTTP/1.1" in line]


@pytest.fixture(scope="session")
def s3_server(s3_log: Path) -> Iterator[str]:
    """The URL of an empty S3 server; the environment has credentials for it."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with pytest.MonkeyPatch.context() as patch, s3_log.open("wb") as output:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        server = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + START_DEADLINE_S
            while not answers(port):
                assert server.poll() is None and time.monotonic() < deadline, s3_log.read_text()
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()


@pytest.fixture
def bucket(s3_server: str) -> str:
    """The name of an empty bucket."""
    name = f"checkpoints-{os.getpid()}-{next(_numbers)}"
    address = s3_server.removeprefix("http://")
    fs.S3FileSystem(scheme="http", endpoint_override=address, allow_bucket_creation=True).create_dir(name)
    return name
