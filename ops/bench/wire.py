"""What it costs to encrypt what tasks send to owners: CPU time of both ends together, over loopback: ``python -m ops.bench.wire``."""

from __future__ import annotations

import socket
import threading
import time

from app.owners.wire import Wire, WireError, WireKey, accepted, connect

SIZES = (1 << 10, 64 << 10, 1 << 20)
MESSAGES = {1 << 10: 2000, 64 << 10: 500, 1 << 20: 100}
ROUNDS = 7


def listening(key: WireKey) -> tuple[socket.socket, int]:
    """A port that answers every message with a short one."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        wire = accepted(connection, key)
        try:
            while True:
                wire.receive()
                wire.send({})
        except WireError:
            wire.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener, int(listener.getsockname()[1])


def cpu_us(wire: Wire, size: int) -> float:
    """Of one message and its answer."""
    payload, count = bytes(size), MESSAGES[size]
    before = time.process_time_ns()
    for _ in range(count):
        wire.ask({"op": "deliver"}, [payload])
    return (time.process_time_ns() - before) / count / 1000


def main() -> None:
    """Prints a table: least CPU time of several rounds, plain and encrypted in turn."""
    keys = {name: WireKey(b"a token of this benchmark", name == "encrypted") for name in ("plain", "encrypted")}
    ports = {name: listening(key) for name, key in keys.items()}
    wires = {name: connect("127.0.0.1", port, keys[name]) for name, (_, port) in ports.items()}
    print("| bytes | plain, us | encrypted, us | more per MB, ms |\n|---|---|---|---|")
    for size in SIZES:
        least = {name: min(cpu_us(wires[name], size) for _ in range(ROUNDS)) for name in wires}
        more = (least["encrypted"] - least["plain"]) / 1000 / (size / 1e6)
        print(f"| {size:,} | {least['plain']:.0f} | {least['encrypted']:.0f} | {more:.2f} |")


if __name__ == "__main__":
    main()
