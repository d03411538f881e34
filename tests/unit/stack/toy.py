"""A real server process that starts in milliseconds: it listens, and says in its log what it was told."""

from __future__ import annotations

import socket
import sys
import time
from signal import Signals

from stack.ports import LOOPBACK, choose_port
from stack.processes.server import Conduct, Request, ServerPlan

_ANSWERS_S = 60.0

# `hang`: ignores the polite request to end. `fail`: prints its reason and dies before it listens.
_SERVER = """
import signal, socket, sys
port, mode = int(sys.argv[1]), sys.argv[2]
print(f"toy starts as {mode}", flush=True)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs inherit that it is ignored
if mode == "fail":
    sys.exit("the reason why")
if mode == "hang":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
listener = socket.create_server(("127.0.0.1", port))
while True:
    with listener.accept()[0] as client:
        client.sendall(b"!")
"""


class Toy:
    """A recipe whose server's conduct is the setting ``mode``; the signal ``stop`` asks it to end."""

    name = "toy"

    def plan(self, request: Request) -> ServerPlan:
        port = choose_port(request.port)
        request.home.mkdir(parents=True, exist_ok=True)
        request.data.mkdir(parents=True, exist_ok=True)
        mode = request.settings.get("mode", "serve")
        return ServerPlan(
            name=self.name,
            command=(sys.executable, "-S", "-c", _SERVER, str(port), mode),
            address=f"{LOOPBACK}:{port}",
            log=request.home / "server.log",
            data=request.data,
            conduct=Conduct(stop_signal=Signals[request.settings.get("stop", "SIGTERM")]),
        )

    def answers(self, address: str) -> bool:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=0.5) as client:
                return client.recv(1) == b"!"  # the kernel accepts for a frozen process; only it can greet
        except OSError:
            return False


def comes_to_answer(address: str) -> bool:
    """Whether the server answers, however busy the machine is: one question waits for half a second."""
    until = time.monotonic() + _ANSWERS_S
    while not Toy().answers(address):
        if time.monotonic() >= until:
            return False
    return True
