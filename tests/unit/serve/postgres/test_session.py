"""Sessions, as psycopg has them: simple and extended queries, cursors, COPY, errors, cancel."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.unit.serve.memory_subscriptions import (
    DEEP_JSON,
    MemorySubscriptions,
    Unforeseen,
    deep_bank,
    until,
)
from tests.unit.serve.postgres.served import RawClient, error_of, frame, run, serving, startup_message
from tidegate.errors import LateRow
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres.cursor import Cursor

UPSERT = "SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS)"


def bank() -> MemorySubscriptions:
    source = MemorySubscriptions()
    source.commit(5, (1, 7, "a\tb\\"), (2, 8, None))
    return source


def test_a_bounded_subscribe_is_a_query_with_an_end() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            served.source.commit(9, (1, 0, "é"), 2)
            cursor = await client.execute("SUBSCRIBE accounts AS OF 5 UP TO 9.0000000001")
            assert cursor.description is not None
            assert [(column.name, column.type_code) for column in cursor.description] == [
                ("mz_timestamp", 1700),
                ("mz_diff", 20),
                ("id", 20),
                ("balance", 20),
                ("note", 25),
            ]
            assert sorted(await cursor.fetchall(), key=str) == sorted(
                [
                    (Decimal("5.0000000000"), 1, 1, 7, "a\tb\\"),
                    (Decimal("5.0000000000"), 1, 2, 8, None),
                    (Decimal("9.0000000000"), -1, 1, 7, "a\tb\\"),
                    (Decimal("9.0000000000"), -1, 2, 8, None),
                    (Decimal("9.0000000000"), 1, 1, 0, "é"),
                ],
                key=str,
            )
            assert cursor.statusmessage == "SUBSCRIBE 5"

    run(test)


def test_json_is_given_however_deep_it_is() -> None:
    async def test() -> None:
        async with serving(deep_bank()) as served, await served.connect() as client:
            async for row in client.cursor().stream("SUBSCRIBE accounts"):
                assert row[2:] == (1, 8, DEEP_JSON)
                break

    run(test)


def test_a_second_cancel_leaves_no_subscription_open() -> None:
    async def test() -> None:
        source = bank()
        cursor = Cursor(await source.open("SUBSCRIBE accounts"))
        batches = cursor.batches()
        await anext(batches)
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        waiting.cancel()
        closing = asyncio.ensure_future(cursor.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({waiting, closing})
        assert closing.cancelled()
        assert not source.open_streams

    run(test)


def test_copy_gives_rows_as_they_come_and_a_cancel_ends_it() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            rows: list[tuple[Any, ...]] = []
            cursor = client.cursor()
            with pytest.raises(psycopg.errors.QueryCanceled):  # noqa: PT012 - what is read before it counts
                async with cursor.copy(f"COPY ({UPSERT}) TO STDOUT") as copy:
                    copy.set_types(["numeric", "bool", "text", "int8", "int8", "text"])
                    async for row in copy.rows():
                        rows.append(row)
                        if len(rows) == 4:
                            served.source.commit(9, (1, 0, "line\nfeed"))
                        if len(rows) == 6:
                            await client.cancel_safe()
            assert rows[:2] == [
                (Decimal(5), True, None, None, None, None),
                (Decimal(5), False, "upsert", 1, 7, "a\tb\\"),
            ]
            assert rows[4:6] == [
                (Decimal(9), False, "upsert", 1, 0, "line\nfeed"),
                (Decimal("9.0000000001"), True, None, None, None, None),
            ]
            await until(lambda: not served.source.open_streams, "the subscription has ended")
            assert await (await client.execute("SELECT 1")).fetchone() == (1,)

    run(test)


def test_copy_works_by_the_extended_protocol_too() -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            served.source.mark(8)
            client = await served.raw()
            await client.login()
            text = b"COPY (SUBSCRIBE accounts AS OF 5 UP TO 6) TO STDOUT (FORMAT text)\0"
            await client.send(
                frame(b"P", b"\0" + text + b"\0\0")
                + frame(b"B", b"\0\0\0\0\0\0\0\0")
                + frame(b"D", b"P\0")
                + frame(b"E", b"\0\0\0\0\0")
                + frame(b"S", b"")
            )
            assert [kind for kind, _ in await client.until(b"Z")] == [
                *(b"1", b"2", b"n", b"H", b"d", b"d", b"c", b"C", b"Z")
            ]
            client.close()

    run(test)


def test_fetch_waits_for_one_row_and_gives_what_is_there() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            await client.execute("BEGIN")
            await client.execute(f"DECLARE c CURSOR FOR {UPSERT}")
            header = await client.execute("FETCH 0 c")
            assert header.description is not None
            assert [column.name for column in header.description][:3] == [
                *("mz_timestamp", "mz_progressed", "mz_state")
            ]
            assert header.statusmessage == "FETCH 0"
            assert len(await (await client.execute("FETCH c")).fetchall()) == 1
            assert len(await (await client.execute("FETCH 1000000 c")).fetchall()) == 3
            waiting = asyncio.ensure_future(client.execute("FETCH ALL c"))
            await until(lambda: served.source.opened == 1, "declared")
            assert not waiting.done()
            served.source.commit(7, 1)
            assert [row[2:4] for row in await (await waiting).fetchall()] == [("delete", 1), (None, None)]
            await client.execute("COMMIT")
            await until(lambda: not served.source.open_streams, "a cursor ends with its transaction")

    run(test)


def test_fetch_with_a_timeout_ends_without_rows_and_loses_none() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            await client.execute("BEGIN")
            await client.execute(f"DECLARE c CURSOR FOR {UPSERT}")
            assert len(await (await client.execute("FETCH ALL c WITH (timeout = '0s')")).fetchall()) == 4
            for text in ("'1ms'", "0", "'0.001 s'"):
                assert await (await client.execute(f"FETCH 5 c WITH (timeout = {text})")).fetchall() == []
            served.source.commit(7, (3, 3, "x"))
            rows = await (await client.execute("FETCH 2 IN c WITH (timeout '20s')")).fetchall()
            assert [row[3] for row in rows] == [3, None]
            await client.execute("CLOSE c")
            assert not served.source.open_streams

    run(test)


def test_fetch_all_gives_what_is_left_at_the_end() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client, client.transaction():
            await client.execute("DECLARE c CURSOR FOR SUBSCRIBE accounts AS OF 5 UP TO 6")
            served.source.mark(8)
            assert len(await (await client.execute("FETCH ALL c WITH (timeout = '50s')")).fetchall()) == 2
            assert await (await client.execute("FETCH ALL c")).fetchall() == []

    run(test)


def test_psycopg_streams_rows_by_the_extended_protocol() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            seen: list[Any] = []
            async for row in client.cursor().stream(UPSERT):
                seen.append(row[2])
                if len(seen) == 4:
                    break
            assert seen == [None, "upsert", "upsert", None]
            await until(lambda: not served.source.open_streams, "psycopg cancels what it leaves")
            served.source.mark(8)
            bounded = "SUBSCRIBE accounts AS OF 5 UP TO 7"
            assert len([row async for row in client.cursor().stream(bounded)]) == 2

    run(test)


def test_psycopgs_server_side_cursors_read_a_subscription() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client, client.transaction():
            async with client.cursor("live") as cursor:
                await cursor.execute(UPSERT)
                assert cursor.description is not None
                assert [column.name for column in cursor.description][3] == "id"
                assert [row[3] for row in await cursor.fetchmany(3)] == [None, 1, 2]
                served.source.commit(6, (4, 4, "y"))
                assert [row[3] for row in await cursor.fetchmany(9)] == [None, 4, None]
            assert not served.source.open_streams

    run(test)


@pytest.mark.parametrize(
    ("text", "sqlstate", "code", "position"),
    [
        ("SUBSCRIBE nothing", "42P01", "unknown_relation", 11),
        ("COPY (SUBSCRIBE accounts ENVELOPE UPSERT (KEY (a))) TO STDOUT", "42703", "unknown_column", 48),
        ("SUBSCRIBE totals", "42809", "not_subscribable", 11),
        ("SUBSCRIBE accounts AS OF 9 UP TO 8", "22000", "bounds_crossed", None),
        ("TAIL accounts", "42601", "renamed_statement", 1),
        ("SELECT * FROM accounts", "0A000", "not_supported", None),
        ("DECLARE c CURSOR FOR SUBSCRIBE accounts", "25P01", "no_transaction", None),
        ("FETCH 1 c", "34000", "unknown_name", None),
        ("INSERT INTO accounts VALUES (1)", "0A000", "not_supported", None),
        ("SHOW nothing", "42704", "unknown_setting", None),
        ("SET client_encoding = 'LATIN1'", "22023", "invalid_setting", None),
        ("nonsense", "42601", "syntax_error", None),
    ],
)
def test_errors_have_their_sqlstate_code_and_place(
    text: str, sqlstate: str, code: str, position: int | None
) -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            with pytest.raises(psycopg.Error) as caught:
                await client.execute(text)
            diagnosis = caught.value.diag
            assert (diagnosis.sqlstate, diagnosis.message_detail) == (sqlstate, f"code: {code}")
            if position is not None:
                assert diagnosis.statement_position == str(position)
            assert await (await client.execute("SELECT 1")).fetchone() == (1,)

    run(test)


def test_an_error_of_a_record_names_its_place() -> None:
    async def test() -> None:
        source = bank()
        async with serving(source) as served, await served.connect() as client:
            source.fail(LateRow("a row came too late", "accounts", 0, 12))
            with pytest.raises(psycopg.Error) as caught:
                await client.execute("SUBSCRIBE accounts")
            assert caught.value.diag.sqlstate == "XX001"
            assert caught.value.diag.message_detail == "code: late_row; record: accounts[0], offset 12"

    run(test)


def test_an_exception_that_nobody_foresaw_ends_a_command_and_tells_no_more() -> None:
    async def test() -> None:
        source = bank()
        async with serving(source) as served, await served.connect() as client:
            source.fail(Unforeseen("secret"))
            with pytest.raises(psycopg.errors.InternalError_, match="nobody foresaw") as caught:
                await client.execute("SUBSCRIBE accounts")
            assert "secret" not in str(caught.value)
            source.failure = None
            assert await (await client.execute("SELECT 1")).fetchone() == (1,)

    run(test)


def test_a_transaction_has_one_subscribe_and_is_aborted_by_an_error() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect(autocommit=False) as client:
            await client.execute("DECLARE a CURSOR FOR SUBSCRIBE accounts")
            with pytest.raises(psycopg.errors.ActiveSqlTransaction, match="must be the only read statement"):
                await client.execute("DECLARE b CURSOR FOR SUBSCRIBE accounts")
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                await client.execute("FETCH a")
            await client.rollback()
            assert not served.source.open_streams
            await client.execute("DECLARE b CURSOR FOR SUBSCRIBE accounts")
            await client.commit()

    run(test)


def test_commit_of_a_failed_transaction_says_rollback() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            await client.execute("BEGIN")
            with pytest.raises(psycopg.Error):
                await client.execute("nonsense")
            assert (await client.execute("COMMIT")).statusmessage == "ROLLBACK"

    run(test)


def test_parameters_and_binary_results_are_refused_by_a_sentence() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="parameters are not supported"):
                await client.execute("SUBSCRIBE accounts AS OF %s", (5,))
            with pytest.raises(psycopg.errors.FeatureNotSupported, match="binary results"):
                await client.execute("SUBSCRIBE accounts", binary=True)
            served.source.mark(8)
            written = sql.SQL("SUBSCRIBE accounts AS OF {} UP TO 6").format(sql.Literal(5))
            assert len(await (await client.execute(written)).fetchall()) == 2

    run(test)


def test_what_clients_send_around_a_subscription_is_answered() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            for text in (
                "SET extra_float_digits = 3",
                "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
                "SET TIME ZONE 'UTC'",
                "BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY",
                "END",
                "DISCARD ALL",
                "DEALLOCATE ALL",
                "RESET ALL",
            ):
                await client.execute(text)
            await client.execute("SET application_name TO 'mine'")
            for text, expected in (
                ("SHOW application_name", "mine"),
                ("SHOW transaction isolation level", "serializable"),
                ("SELECT current_user", "ada"),
                ("SELECT pg_catalog.current_database()", "bank"),
                ("SHOW TABLES", "materialize.public.accounts"),
            ):
                row = await (await client.execute(text)).fetchone()
                assert row is not None
                assert str(row[0]).endswith(expected.removeprefix("materialize."))
            columns = await (await client.execute("SHOW COLUMNS FROM accounts")).fetchall()
            assert columns == [("id", "yes"), ("balance", ""), ("note", "")]
            assert client.info.server_version == 150000

    run(test)


def test_the_dialect_is_a_setting_of_the_session() -> None:
    async def test() -> None:
        async with serving(bank()) as served, await served.connect() as client:
            served.source.mark(8)
            bounded = "SUBSCRIBE accounts WITH (PROGRESS) AS OF 5 UP TO 6"
            assert len(await (await client.execute(bounded)).fetchall()) == 5
            await client.execute("SET tidegate.dialect = 'materialize'")
            assert len(await (await client.execute(bounded)).fetchall()) == 4
            with pytest.raises(psycopg.Error, match="invalid value"):
                await client.execute("SET tidegate.dialect = 'mysql'")

    run(test)


def test_several_statements_of_one_query_run_to_the_first_error() -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            client = await served.raw()
            await client.login()
            await client.query("SELECT 1; SELECT 'a;b'; nonsense; SELECT 2")
            found = await client.until(b"Z")
            assert [kind for kind, _ in found] == [b"T", b"D", b"C", b"T", b"D", b"C", b"E", b"Z"]
            await client.query("BEGIN; nonsense")
            assert (await client.until(b"Z"))[-1] == (b"Z", b"E")
            await client.query("; -- nothing\n ;")
            assert [kind for kind, _ in await client.until(b"Z")] == [b"I", b"Z"]
            client.close()

    run(test)


def test_after_an_error_the_extended_protocol_skips_to_sync() -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            client = await served.raw()
            await client.login()
            await client.send(
                frame(b"B", b"\0unknown\0\0\0\0\0\0\0")
                + frame(b"D", b"S\0")
                + frame(b"E", b"\0\0\0\0\0")
                + frame(b"S", b"")
            )
            found = await client.until(b"Z")
            assert [kind for kind, _ in found] == [b"E", b"Z"]
            assert error_of(found[0][1])["C"] == "26000"
            client.close()

    run(test)


def test_a_client_that_is_gone_ends_its_subscription() -> None:
    async def test() -> None:
        async with serving(bank()) as served:
            for query in ("SUBSCRIBE accounts", f"COPY ({UPSERT}) TO STDOUT"):
                client = await served.raw()
                await client.login()
                await client.query(query)
                await until(lambda: len(served.source.open_streams) == 1, "subscribed")
                client.writer.transport.abort()
                await until(lambda: not served.source.open_streams, "the subscription has ended")
            client = await served.raw()
            await client.login()
            await client.query(f"BEGIN; DECLARE c CURSOR FOR {UPSERT}")
            await client.until(b"Z")
            client.close()
            await until(lambda: not served.source.open_streams, "an idle cursor has ended")

    run(test)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_client_that_sends_much_ahead_of_its_command_keeps_no_place(leaves: bool) -> None:
    async def test() -> None:
        async with serving(bank(), limits=ServeLimits(ahead_s=0.2)) as served:
            client = await served.raw()
            await client.login()
            await client.query("COPY (SUBSCRIBE accounts) TO STDOUT")
            assert (await client.message())[0] == b"H"
            client.writer.write(frame(b"H", b"") * 200_000)
            if leaves:
                client.close()
            await until(lambda: served.front.connections == 0, "it is ended")
            assert not served.source.open_streams
            client.close()

    run(test)


def test_a_client_that_sends_much_ahead_is_served_while_its_commands_go_on() -> None:
    async def test() -> None:
        async with serving(bank(), limits=ServeLimits(ahead_s=60.0)) as served:
            client = await served.raw()
            await client.login()
            (stream,) = served.front._streams
            query = frame(b"Q", b"SELECT '" + b"x" * 20_000 + b"'\0")
            sent = asyncio.ensure_future(client.send(query * 100))
            waiting: dict[float, int] = {}  # bytes, by when the client would be ended
            for _ in range(100):
                assert [kind for kind, _ in await client.until(b"Z")] == [b"T", b"D", b"C", b"Z"]
                if stream._reading_paused:
                    stream._look_ahead()  # as when the time of the message before is over
                    assert stream._ahead_until is not None
                    left = waiting.setdefault(stream._ahead_until.when(), len(stream._buffer))
                    assert left == len(stream._buffer), "each command that is taken gives it the whole time"
            await sent
            assert len(waiting) > 1, "it was ahead for longer than one command"
            assert not stream._is_too_far_ahead
            client.close()

    run(test)


def test_a_slow_client_holds_back_its_own_subscription_alone() -> None:
    """The slow client reads nothing: its stream stays where it was, the other's comes to the end."""

    async def test() -> None:
        source = MemorySubscriptions()
        note = "x" * 10_000
        for wall in range(1, 200):
            source.commit(wall, (1, wall, note))
        async with serving(source, limits=ServeLimits(close_s=0.1)) as served:
            slow, fast = await served.raw(), await served.raw()
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            statement = "SUBSCRIBE accounts AS OF 1 UP TO 199"
            await fast.login()
            await slow_query(slow, statement)
            await until(lambda: len(source.open_streams) == 1, "the slow one subscribes")
            (held,) = source.open_streams
            await fast.query(statement)
            assert (await fast.until(b"Z"))[-1][0] == b"Z"
            await until(lambda: held.taken > 10, "it was given what fits into the buffers")
            assert held.taken < 100
            slow.writer.transport.abort()
            fast.close()
            await until(lambda: not source.open_streams, "both have ended")

    run(test)


async def slow_query(client: RawClient, statement: str) -> None:
    """Log in and query without reading a byte."""
    await client.send(startup_message({"user": "slow"}) + frame(b"Q", statement.encode() + b"\0"))
