"""Connections of peers that have gone without a word."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.unit.serve.postgres.served import run, serving
from tests.unit.serve.web.served_web import serving_web


def ended_after_s(connection: socket.socket) -> int:
    """After how many seconds of silence the kernel ends a connection; 0 for never."""
    if not connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE):
        return 0
    idle, between, count = (
        connection.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_KEEP{name}"))
        for name in ("IDLE", "INTVL", "CNT")
    )
    return idle + between * count


@pytest.mark.skipif(sys.platform != "linux", reason="the options have other names elsewhere")
def test_both_fronts_end_connections_of_silent_peers_soon() -> None:
    async def test() -> None:
        async with serving() as served:
            client = await served.raw()
            await client.login()
            (stream,) = served.front._streams
            assert 0 < ended_after_s(stream._writer.get_extra_info("socket")) <= 120
            client.close()
        async with serving_web() as web:
            answer = await web.get("/health")
            assert web.front._server is not None
            (connection,) = web.front._server.server_state.connections
            assert 0 < ended_after_s(connection.transport.get_extra_info("socket")) <= 120
            answer.close()

    run(test)
