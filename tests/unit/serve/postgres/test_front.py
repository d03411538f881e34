"""The front: logins, TLS, limits, and bytes of clients that are none."""

from __future__ import annotations

import asyncio
import shutil
import struct
import subprocess
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.registry.certificates import Authority
from tests.unit.serve.memory_subscriptions import MemorySubscriptions, until
from tests.unit.serve.postgres.served import (
    Served,
    error_of,
    frame,
    run,
    serving,
    startup_message,
    turns,
)
from tidegate.serve.limits import ServeLimits
from tidegate.serve.postgres.login import Admission
from tidegate.serve.postgres.scram import Verifiers, make_verifier
from tidegate.serve.postgres.wire import CancelRequest

USERS = Verifiers({"ada": make_verifier("s3cret"), "zoë": make_verifier("pässword")})
SSL_REQUEST = struct.pack("!II", 8, 80877103)
GSS_REQUEST = struct.pack("!II", 8, 80877104)


async def answers(served: Served, **others: str) -> None:
    async with await served.connect(**others) as client:
        assert await (await client.execute("SELECT 1")).fetchone() == (1,)


def test_without_users_everybody_is_let_in() -> None:
    async def test() -> None:
        async with serving() as served:
            await answers(served, user="anybody")

    run(test)


def test_a_password_is_proved_by_scram() -> None:
    async def test() -> None:
        async with serving(admission=Admission(USERS)) as served:
            await answers(served, password="s3cret")
            await answers(served, user="zoë", password="pässword")

    run(test)


@pytest.mark.parametrize(("user", "password"), [("ada", "wrong"), ("nobody", "s3cret")])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(user: str, password: str) -> None:
    async def test() -> None:
        async with serving(admission=Admission(USERS)) as served:
            with pytest.raises(psycopg.OperationalError, match="password authentication failed for user"):
                await served.connect(user=user, password=password)
            await until(lambda: served.front.connections == 0, "it is let go of")

    run(test)


def test_a_query_before_the_login_ends_the_connection() -> None:
    async def test() -> None:
        async with serving(admission=Admission(USERS)) as served:
            client = await served.raw()
            await client.send(startup_message({"user": "ada"}))
            assert (await client.message())[0] == b"R"
            await client.query("SELECT 1")
            kind, payload = await client.message()
            assert (kind, error_of(payload)["C"]) == (b"E", "08P01")
            assert await client.message() == (b"", b"")
            client.close()

    run(test)


def test_tls_is_spoken_with_clients_that_ask_for_it(tmp_path: Path) -> None:
    authority = Authority()
    admission = Admission(USERS, authority.server_context(tmp_path))
    (tmp_path / "ca.pem").write_bytes(authority.cert)

    async def test() -> None:
        async with serving(admission=admission) as served:
            root = str(tmp_path / "ca.pem")
            await answers(served, password="s3cret", sslmode="verify-full", sslrootcert=root)
            await answers(served, password="s3cret", sslmode="disable")

    run(test)


def test_where_tls_is_required_a_client_without_is_refused(tmp_path: Path) -> None:
    admission = Admission(USERS, Authority().server_context(tmp_path), tls_required=True)

    async def test() -> None:
        async with serving(admission=admission) as served:
            await answers(served, password="s3cret", sslmode="require")
            with pytest.raises(psycopg.OperationalError, match="takes TLS connections alone"):
                await served.connect(password="s3cret", sslmode="disable")

    run(test)


def test_bytes_between_the_request_for_tls_and_tls_are_refused(tmp_path: Path) -> None:
    """A man in the middle could put a query of his own before the client's first one."""

    async def test() -> None:
        async with serving(admission=Admission(None, Authority().server_context(tmp_path))) as served:
            client = await served.raw()
            await client.send(SSL_REQUEST + startup_message({"user": "ada"}) + frame(b"Q", b"SELECT 1\0"))
            assert (await client.reader.read(1)) == b"S"
            kind, payload = await client.message()
            assert (kind, error_of(payload)["C"]) == (b"E", "08P01")
            client.close()

    run(test)


def test_encryption_that_is_not_there_is_refused_and_the_client_may_go_on() -> None:
    async def test() -> None:
        async with serving() as served:
            client = await served.raw()
            for request in (GSS_REQUEST, SSL_REQUEST):
                await client.send(request)
                assert await client.reader.read(1) == b"N"
            await client.login()
            client.close()
            endless = await served.raw()
            await endless.send(SSL_REQUEST * 9)
            assert b"again and again" in await endless.reader.read()
            endless.close()

    run(test)


def test_a_later_protocol_is_answered_with_ours() -> None:
    async def test() -> None:
        async with serving() as served:
            client = await served.raw()
            await client.send(struct.pack("!II", 18, 0x0003_0063) + b"user\0ada\0\0")
            assert (await client.message())[0] == b"v"
            assert (await client.until(b"Z"))[-1] == (b"Z", b"I")
            client.close()

    run(test)


def test_a_login_that_takes_too_long_is_ended() -> None:
    async def test() -> None:
        async with serving(limits=ServeLimits(startup_s=0.05)) as served:
            for begun in (b"", b"\0\0", startup_message({"user": "ada"})[:-1]):
                client = await served.raw()
                await client.send(begun)
                kind, payload = await client.message()
                assert (kind, error_of(payload)["D"]) == (b"E", "code: startup_timeout")
                client.close()
            patient = await served.raw()
            while not await patient.tries_to_log_in():  # the machine may stand still for as long
                patient.close()
                patient = await served.raw()
            await asyncio.sleep(0.1)  # beyond the bound, which is that of the login alone
            await patient.query("SELECT 1")
            assert (await patient.until(b"Z"))[-1][0] == b"Z"
            patient.close()

    run(test)


def test_one_client_too_many_is_told_so_and_may_still_cancel() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        async with serving(source, limits=ServeLimits(connections=1)) as served:
            first = await served.connect()
            with pytest.raises(psycopg.OperationalError, match="too many clients") as caught:
                await served.connect()
            assert "1 are connected" in str(caught.value)
            running = asyncio.ensure_future(first.execute("SUBSCRIBE accounts"))
            await until(lambda: bool(source.open_streams), "subscribed")
            await first.cancel_safe()
            with pytest.raises(psycopg.errors.QueryCanceled):
                await running
            await first.close()

    run(test)


def test_a_cancel_with_another_secret_ends_nothing() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        async with serving(source) as served:
            client = await served.raw()
            await client.send(startup_message({"user": "ada"}))
            (key,) = [payload for kind, payload in await client.until(b"Z") if kind == b"K"]
            process_id, secret = struct.unpack("!I", key[:4])[0], key[4:]
            assert len(secret) == 4
            await client.query("SUBSCRIBE accounts")
            await until(lambda: bool(source.open_streams), "subscribed")
            for wrong in (bytes(4), b"", secret + b"x"):
                asker = await served.raw()
                await asker.send(CancelRequest(process_id, wrong).to_wire())
                assert await asker.reader.read() == b""
                asker.close()
            assert source.open_streams
            asker = await served.raw()
            await asker.send(CancelRequest(process_id, secret).to_wire())
            found = await client.until(b"Z")
            assert error_of(found[-2][1])["C"] == "57014"
            client.close()
            asker.close()

    run(test)


def test_a_message_that_is_too_long_ends_its_connection_before_it_is_there() -> None:
    async def test() -> None:
        async with serving(limits=ServeLimits(message_bytes=1_000)) as served:
            client, other = await served.raw(), await served.raw()
            await client.login()
            await other.login()
            await client.query("SELECT '" + "x" * 900 + "'")
            await client.until(b"Z")
            await client.send(b"Q" + struct.pack("!I", 1_001))
            kind, payload = await client.message()
            assert (kind, error_of(payload)["C"], error_of(payload)["S"]) == (b"E", "08P01", "FATAL")
            assert await client.message() == (b"", b"")
            await other.query("SELECT 1")
            assert (await other.until(b"Z"))[-1][0] == b"Z"
            client.close()
            other.close()

    run(test)


def test_a_statement_that_is_too_large_is_refused_and_the_session_goes_on() -> None:
    async def test() -> None:
        async with serving() as served, await served.connect() as client:
            with pytest.raises(psycopg.errors.StatementTooComplex, match="65536 are possible"):
                await client.execute("SUBSCRIBE " + "a" * 70_000)
            assert await (await client.execute("SELECT 1")).fetchone() == (1,)

    run(test)


@pytest.mark.parametrize(
    "sent",
    [
        frame(b"H", b"") * 2_000 + frame(b"S", b""),
        frame(b"E", b"none\0\0\0\0\0") + frame(b"C", b"Px\0") * 2_000 + frame(b"S", b""),
        frame(b"Q", b"BEGIN;" * 900 + b"\0"),
    ],
    ids=["messages", "messages that are skipped", "commands"],
)
def test_a_client_that_sends_much_ahead_lets_others_have_their_turns(sent: bytes) -> None:
    async def test() -> None:
        async with serving() as served:
            client = await served.raw()
            await client.login()
            async with turns() as counted:
                await client.send(sent)
                await client.until(b"Z")
                assert counted[0] >= 900
            client.close()

    run(test)


def test_a_query_of_any_command_and_a_prepared_statement_have_a_bound() -> None:
    async def test() -> None:
        async with serving() as served:
            client = await served.raw()
            await client.login()
            text = b"BEGIN " + b"," * 65_531 + b"\0"
            for sent in (frame(b"Q", text), frame(b"P", b"\0" + text + b"\0\0") + frame(b"S", b"")):
                await client.send(sent)
                assert error_of((await client.until(b"Z"))[0][1])["C"] == "54001"
            for count, answers in ((1_000, 1_000), (1_001, 1)):
                await client.query("BEGIN;" * count)
                found = await client.until(b"Z")
                assert len(found) == answers + 1
            assert error_of(found[0][1])["M"] == "the query has 1001 commands, and 1000 are possible"
            client.close()

    run(test)


def test_names_of_a_session_have_a_bound() -> None:
    async def test() -> None:
        async with serving(limits=ServeLimits(names=2)) as served:
            client = await served.raw()
            await client.login()
            parse = b"".join(frame(b"P", b"s%d\0SELECT 1\0\0\0" % n) for n in range(3))
            await client.send(parse + frame(b"S", b""))
            found = await client.until(b"Z")
            assert [kind for kind, _ in found] == [b"1", b"1", b"E", b"Z"]
            assert error_of(found[2][1])["C"] == "54000"
            for n in range(2):
                await client.query(f"SET a{n} = 1")
                assert (await client.until(b"Z"))[0][0] == b"C"
            await client.query("SET a2 = 1")
            assert (await client.until(b"Z"))[0][0] == b"E"
            client.close()

    run(test)


def test_statements_that_a_session_keeps_have_a_bound_in_characters() -> None:
    statement = "SUBSCRIBE accounts WHERE " + "x" * 400

    async def test() -> None:
        async with serving(limits=ServeLimits(kept_characters=1_000)) as served:
            client = await served.raw()
            await client.login()
            parse = b"".join(frame(b"P", b"s%d\0%s\0\0\0" % (n, statement.encode())) for n in range(3))
            await client.send(parse + frame(b"S", b""))
            found = await client.until(b"Z")
            assert [kind for kind, _ in found] == [b"1", b"1", b"E", b"Z"]
            assert "up to 1,000 characters in all" in error_of(found[2][1])["M"]
            bind = b"".join(frame(b"B", b"p%d\0s%d\0\0\0\0\0\0\0" % (n, n % 2)) for n in range(3))
            await client.send(bind + frame(b"S", b""))
            assert [kind for kind, _ in await client.until(b"Z")] == [b"2", b"2", b"E", b"Z"]
            # What is deallocated makes room; the unnamed statement takes the place of the one before.
            await client.query("DEALLOCATE s0")
            await client.until(b"Z")
            parse = frame(b"P", b"\0%s\0\0\0" % statement.encode())
            await client.send(parse * 3 + frame(b"S", b""))
            assert [kind for kind, _ in await client.until(b"Z")] == [b"1", b"1", b"1", b"Z"]
            await client.query(f"SET {'a' * 1_000} = 1")
            assert error_of((await client.until(b"Z"))[0][1])["C"] == "54000"
            client.close()

    run(test)


def test_cursors_of_a_session_have_a_bound_in_characters() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        async with serving(source, limits=ServeLimits(kept_characters=100)) as served:
            client = await served.raw()
            await client.login()
            await client.query("BEGIN; DECLARE c CURSOR FOR SUBSCRIBE accounts")
            assert (await client.until(b"Z"))[-1] == (b"Z", b"T")
            await client.query(f"ROLLBACK; BEGIN; DECLARE d CURSOR FOR SUBSCRIBE accounts{' ' * 100};")
            # What is behind its last word does not count.
            assert (await client.until(b"Z"))[-1] == (b"Z", b"T")
            await client.query(f"ROLLBACK; BEGIN; DECLARE {'d' * 100} CURSOR FOR SUBSCRIBE accounts")
            found = await client.until(b"Z")
            assert "cursors of a session have up to 100 characters" in error_of(found[-2][1])["M"]
            client.close()

    run(test)


def test_a_client_that_sends_without_reading_fills_no_memory() -> None:
    """Answers wait in the sockets, then queries do: the server keeps both within its bounds."""

    async def test() -> None:
        limits = ServeLimits(message_bytes=64 * 1024, waiting_bytes=64 * 1024)
        async with serving(limits=limits) as served:
            client = await served.raw()
            client.writer.transport.set_write_buffer_limits(1)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.writer.write(startup_message({"user": "ada"}))
            query = frame(b"Q", b"SELECT '" + b"x" * 60_000 + b"'\0")
            sent = 0
            while sent < 2_000:
                client.writer.write(query)
                try:
                    async with asyncio.timeout(1):
                        await client.writer.drain()
                except TimeoutError:
                    break
                sent += 1
            assert sent < 1_000
            client.writer.transport.abort()
            await until(lambda: served.front.connections == 0, "it is let go of")

    run(test)


def test_a_client_that_reads_nothing_is_cut_off_at_the_end() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        for wall in range(1, 200):
            source.commit(wall, (1, wall, "x" * 10_000))
        async with serving(source, limits=ServeLimits(close_s=0.05)) as served:
            client = await served.raw()
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            query = frame(b"Q", b"SUBSCRIBE accounts AS OF 1 UP TO 199\0")
            await client.send(startup_message({"user": "ada"}) + query)
            await until(lambda: any(each.taken > 10 for each in source.open_streams), "it is sent rows")
            (stream,) = served.front._streams
            await served.front.close()
            await until(lambda: stream.gone, "it is cut off")
            client.writer.transport.abort()

    run(test)


def test_a_cancel_of_a_slow_client_leaves_no_message_in_parts() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        for wall in range(1, 200):
            source.commit(wall, (1, wall, "x" * 10_000))
        async with serving(source) as served:
            client = await served.raw()
            await client.send(startup_message({"user": "ada"}))
            (key,) = [payload for kind, payload in await client.until(b"Z") if kind == b"K"]
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await client.query("COPY (SUBSCRIBE accounts AS OF 1) TO STDOUT")
            await until(lambda: any(each.taken > 10 for each in source.open_streams), "it is sent rows")
            asker = await served.raw()
            await asker.send(CancelRequest(struct.unpack("!I", key[:4])[0], key[4:]).to_wire())
            await until(lambda: not source.open_streams, "its subscription has ended")
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            found = await client.until(b"Z")
            assert {kind for kind, _ in found[:-2]} == {b"H", b"d"}
            assert error_of(found[-2][1])["C"] == "57014"
            client.close()
            asker.close()

    run(test)


def test_the_end_of_the_server_is_told_to_its_clients() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        async with serving(source) as served:
            client = await served.raw()
            await client.login()
            await client.query("SUBSCRIBE accounts")
            await until(lambda: bool(source.open_streams), "subscribed")
            await served.front.close()
            found = await client.until(b"E")
            assert error_of(found[-1][1])["C"] == "57P01"
            client.close()

    run(test)


MESSAGES = st.one_of(
    st.binary(max_size=40),
    st.builds(frame, st.sampled_from([bytes([n]) for n in b"QPBDESHCFXdcfp"]), st.binary(max_size=40)),
    st.builds(frame, st.just(b"Q"), st.text(max_size=20).map(lambda text: text.encode() + b"\0")),
    st.sampled_from([SSL_REQUEST, GSS_REQUEST, startup_message({"user": "ada"}), frame(b"S", b"")]),
    st.builds(
        lambda kind, length: kind + struct.pack("!I", length),
        st.binary(min_size=1, max_size=1),
        st.integers(0, 2**32 - 1),
    ),
)


@pytest.mark.parametrize("logged_in", [False, True])
@given(sent=st.lists(MESSAGES, max_size=8), cut=st.integers(0, 40))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_bytes_end_the_server_or_hang_it(logged_in: bool, sent: list[bytes], cut: int) -> None:
    async def test() -> None:
        async with serving(limits=ServeLimits(startup_s=100.0)) as served:
            client = await served.raw()
            if logged_in:
                await client.login()
            data = b"".join(sent)
            await client.send(data[: max(len(data) - cut, 0)])
            client.writer.write_eof()
            await client.reader.read()
            client.close()
            await until(lambda: served.front.connections == 0, "the connection has ended")
            await answers(served)

    run(test)


def test_a_client_of_another_protocol_is_told_so() -> None:
    async def test() -> None:
        async with serving() as served:
            client = await served.raw()
            await client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"no client of PostgreSQL's protocol" in await client.reader.read()
            client.close()

    run(test)


def test_a_failed_tls_handshake_ends_its_connection_alone(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(admission=Admission(None, Authority().server_context(tmp_path))) as served:
            client = await served.raw()
            await client.send(SSL_REQUEST)
            assert await client.reader.read(1) == b"S"
            await client.send(b"no handshake at all, and long enough to be read")
            await client.reader.read()
            client.close()
            await until(lambda: served.front.connections == 0, "the connection has ended")
            await answers(served)

    run(test)


def _has_psql() -> bool:
    """Whether psql runs: Debian's wrapper may be there without a client behind it."""
    program = shutil.which("psql")
    if program is None:
        return False
    return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0


_needs_psql = pytest.mark.skipif(not _has_psql(), reason="psql is not installed")


@_needs_psql
def test_psql_shows_a_live_subscription(tmp_path: Path) -> None:
    authority = Authority()
    admission = Admission(USERS, authority.server_context(tmp_path))

    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 7, "a"))
        async with serving(source, admission) as served:
            psql = await asyncio.create_subprocess_exec(
                *("stdbuf", "-oL", "psql", "-X", "-q", "-c"),
                "COPY (SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))) TO STDOUT",
                f"host=127.0.0.1 port={served.port} user=ada dbname=bank password=s3cret sslmode=require",
                stdout=asyncio.subprocess.PIPE,
            )
            assert psql.stdout is not None
            assert await psql.stdout.readline() == b"5.0000000000\tupsert\t1\t7\ta\n"
            source.commit(9, (1, 8, "b"))
            assert await psql.stdout.readline() == b"9.0000000000\tupsert\t1\t8\tb\n"
            psql.terminate()
            await psql.wait()
            await until(lambda: not source.open_streams, "its subscription has ended")

    run(test)


@_needs_psql
def test_psql_runs_a_script_of_begin_declare_fetch() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 7, "a"))
        async with serving(source) as served:
            psql = await asyncio.create_subprocess_exec(
                *("psql", "-X", "-A", "-t", f"host=127.0.0.1 port={served.port} user=ada dbname=bank"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            assert psql.stdin is not None
            assert psql.stdout is not None
            psql.stdin.write(b"BEGIN;\nDECLARE c CURSOR FOR SUBSCRIBE accounts WITH (PROGRESS);\n")
            psql.stdin.write(b"FETCH ALL c;\nSHOW TABLES;\n")
            lines = [(await psql.stdout.readline()).decode().rstrip() for _ in range(6)]
            assert lines[:2] == ["BEGIN", "DECLARE CURSOR"]
            assert "5.0000000000|t|||" in lines[2]
            source.commit(9, 1)
            psql.stdin.write(b"FETCH 1 c;\nCOMMIT;\n\\q\n")
            rest = (await psql.stdout.read()).decode()
            assert "9.0000000000|f|-1|1|7|a" in rest
            await psql.wait()

    run(test)
