"""What a client sends is handled a little at a time, over TLS too."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from tests.unit.registry.certificates import Authority
from tests.unit.serve.memory_subscriptions import MemorySubscriptions, until
from tests.unit.serve.postgres.served import run, turns
from tests.unit.serve.web.served_web import serving_web
from tidegate.serve.web.small_reads import READ_BYTES, SmallReads

SENT = bytes(range(256)) * 100


class Kept(asyncio.Protocol):
    """Keeps the bytes that it is given."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.lost = False
        self.pauses = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        if self.pauses:
            self.transport.pause_reading()  # type: ignore[attr-defined] # it is one that reads

    def connection_lost(self, _: Exception | None) -> None:
        self.lost = True


@pytest.mark.parametrize("pauses", [False, True])
def test_bytes_come_in_small_pieces_and_stop_while_the_protocol_pauses(pauses: bool) -> None:
    async def test() -> None:
        kept = Kept()
        kept.pauses = pauses
        server = await asyncio.get_running_loop().create_server(lambda: SmallReads(kept), "127.0.0.1", 0)
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(SENT)
        if pauses:
            for count in range(1, 4):
                await until(lambda count=count: len(kept.pieces) == count, "the next piece is there")
                for _ in range(10):
                    await asyncio.sleep(0)
                assert len(kept.pieces) == count
                kept.transport.resume_reading()  # type: ignore[attr-defined] # as above
            kept.pauses = False
            kept.transport.resume_reading()  # type: ignore[attr-defined] # as above
        await until(lambda: sum(map(len, kept.pieces)) == len(SENT), "all is there")
        assert b"".join(kept.pieces) == SENT
        assert max(map(len, kept.pieces)) <= READ_BYTES
        writer.close()
        await until(lambda: kept.lost, "the end is told")
        server.close()

    run(test)


@pytest.mark.parametrize("over_tls", [False, True])
def test_a_client_that_sends_many_small_frames_lets_others_have_their_turns(
    over_tls: bool, tmp_path: Path
) -> None:
    authority = Authority()
    trusted = ssl.create_default_context(cadata=authority.cert.decode()) if over_tls else None
    tls = authority.server_context(tmp_path) if over_tls else None
    source = MemorySubscriptions()
    source.commit(5, (1, 1, "a"))

    async def test() -> None:
        async with serving_web(source, tls=tls) as served:
            answer = await served.get(
                "/subscribe?statement=SUBSCRIBE+accounts",
                trusted,
                upgrade="websocket",
                connection="Upgrade",
                sec_websocket_version="13",
                sec_websocket_key="MDEyMzQ1Njc4OWFiY2RlZg==",
            )
            assert answer.status == 101
            pong = bytes([0x8A, 0x80, 0, 0, 0, 0])
            close = bytes([0x88, 0x80, 0, 0, 0, 0])
            async with turns() as counted:
                answer.writer.write(pong * 30_000 + close)
                await until(lambda: not served.front.connections, "the close was read")
                assert counted[0] >= 30_000 * len(pong) // READ_BYTES
            answer.close()

    run(test)
