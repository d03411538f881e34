"""The extended protocol: what portals give, and when they may be made and executed."""

from __future__ import annotations

import struct

import pytest

from tests.unit.serve.memory_subscriptions import MemorySubscriptions
from tests.unit.serve.postgres.served import error_of, frame, run, serving


def bank() -> MemorySubscriptions:
    source = MemorySubscriptions()
    source.commit(5, (1, 7, "a\tb\\"), (2, 8, None))
    return source


def parse(text: str, name: str = "") -> bytes:
    return frame(b"P", f"{name}\0{text}\0\0\0".encode())


def bind(portal: str = "", statement: str = "") -> bytes:
    return frame(b"B", f"{portal}\0{statement}\0\0\0\0\0\0\0".encode())


def execute(most: int = 0, portal: str = "") -> bytes:
    return frame(b"E", f"{portal}\0".encode() + struct.pack("!i", most))


SYNC = frame(b"S", b"")
DECLARE = "BEGIN; DECLARE c CURSOR FOR SUBSCRIBE accounts"


def test_a_portal_is_suspended_after_its_number_of_rows() -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            client = await served.raw()
            await client.login()
            execute = frame(b"E", b"p\0" + struct.pack("!I", 1))
            await client.send(
                frame(b"P", b"s\0SUBSCRIBE accounts AS OF 5 UP TO 6\0\0\0")
                + frame(b"D", b"Ss\0")
                + frame(b"B", b"p\0s\0\0\0\0\0\0\0")
                + execute
                + frame(b"H", b"")
            )
            await client.until(b"s")
            served.source.mark(9)
            await client.send(execute * 2 + frame(b"C", b"Pp\0") + frame(b"C", b"Ss\0") + frame(b"S", b""))
            kinds = [kind for kind, _ in await client.until(b"Z")]
            assert kinds == [b"D", b"s", b"C", b"3", b"3", b"Z"]
            client.close()

    run(test)


@pytest.mark.parametrize(
    ("statement", "tag"),
    [("SUBSCRIBE accounts AS OF 5 UP TO 9", b"SUBSCRIBE 5\0"), ("SUBSCRIBE accounts AS OF 5", b"")],
)
def test_a_portal_that_is_executed_without_a_limit_gives_the_rows_that_a_limit_left(
    statement: str, tag: bytes
) -> None:
    async def test() -> None:
        source = bank()
        source.commit(6, *[(number, number, None) for number in (3, 4, 5)])
        async with serving(source) as served:
            client = await served.raw()
            await client.login()
            await client.send(
                frame(b"P", f"\0{statement}\0\0\0".encode())
                + frame(b"B", b"\0\0\0\0\0\0\0\0")
                + frame(b"E", b"\0" + struct.pack("!I", 1))
                + frame(b"H", b"")
            )
            await client.until(b"s")
            await client.send(frame(b"E", b"\0" + struct.pack("!I", 0)) + frame(b"S", b""))
            rows = [await client.message() for _ in range(4)]
            assert [kind for kind, _ in rows] == [b"D"] * 4
            if tag:
                source.mark(10)
                assert (await client.until(b"Z"))[0] == (b"C", tag)
            client.close()

    run(test)


@pytest.mark.parametrize(
    ("before", "sent", "kinds", "tags"),
    [
        ("", parse("SHOW TABLES") + bind() + execute() + execute(), "12DCC", ["SHOW 1", "SHOW 1"]),
        ("", parse("SELECT 1") + bind() + execute(1) + execute(-1), "12DCC", ["SELECT 1", "SELECT 1"]),
        (
            "",
            parse("SHOW COLUMNS FROM accounts") + bind() + execute(2) + execute(2) + execute(),
            "12DDsDCC",
            ["SHOW 3", "SHOW 3"],
        ),
        (
            DECLARE,
            parse("FETCH 4 c") + bind() + execute(3) + execute(3) + execute(),
            "12DDDsDCC",
            ["FETCH 4", "FETCH 4"],
        ),
        (DECLARE, parse("FETCH ALL c") + bind() + execute(4) + execute(4), "12DDDDsDC", ["FETCH 5"]),
        (
            "",
            parse("COPY (SUBSCRIBE accounts AS OF 5 UP TO 6) TO STDOUT") + bind() + execute() + execute(1),
            "12HddcCHcC",
            ["COPY 2", "COPY 2"],
        ),
        (
            DECLARE,
            parse("FETCH 9 c WITH (timeout = '10ms')") + bind() + execute(3) + execute(),
            "12DDDsDDC",
            ["FETCH 5"],
        ),
    ],
)
def test_a_portal_that_is_executed_again_goes_on_behind_its_rows(
    before: str, sent: bytes, kinds: str, tags: list[str]
) -> None:
    async def test() -> None:
        source = bank()
        source.commit(6, *[(number, number, None) for number in (3, 4, 5)])
        async with serving(source) as served:
            client = await served.raw()
            await client.login()
            await client.query(before)
            await client.until(b"Z")
            await client.send(sent + SYNC)
            found = await client.until(b"Z")
            assert b"".join(kind for kind, _ in found).decode() == kinds + "Z"
            assert [text[:-1].decode() for kind, text in found if kind == b"C"] == tags
            client.close()

    run(test)


def test_a_cursor_is_a_portal_that_can_be_executed_and_closed() -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            client = await served.raw()
            await client.login()
            await client.query(DECLARE)
            await client.until(b"Z")
            await client.send(execute(1, "c") + frame(b"C", b"Pc\0") + execute(1, "c") + SYNC)
            found = await client.until(b"Z")
            assert [kind for kind, _ in found] == [b"D", b"s", b"3", b"E", b"Z"]
            assert error_of(found[3][1])["C"] == "34000"
            assert not served.source.open_streams
            client.close()

    run(test)


def test_after_an_error_queries_are_skipped_to_sync_too() -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            client = await served.raw()
            await client.login()
            call = frame(b"F", struct.pack("!IHHH", 1, 0, 0, 0))
            await client.send(execute(0, "none") + frame(b"Q", b"SELECT 1\0") + call + SYNC)
            assert [kind for kind, _ in await client.until(b"Z")] == [b"E", b"Z"]
            client.close()

    run(test)


@pytest.mark.parametrize("sent", [bind("p", "s"), frame(b"D", b"Ss\0")], ids=["bind", "describe"])
def test_a_block_that_has_failed_binds_and_describes_only_what_ends_it(sent: bytes) -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            client = await served.raw()
            await client.login()
            await client.send(parse("SELECT 1", "s") + SYNC)
            await client.until(b"Z")
            await client.query("BEGIN; nonsense")
            await client.until(b"Z")
            await client.send(sent + SYNC)
            found = await client.until(b"Z")
            assert error_of(found[0][1])["C"] == "25P02"
            await client.send(parse("ROLLBACK") + bind() + frame(b"D", b"P\0") + execute() + SYNC)
            assert [kind for kind, _ in await client.until(b"Z")] == [b"1", b"2", b"n", b"C", b"Z"]
            client.close()

    run(test)
