"""The server: settings that are refused, and both fronts over one source."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psycopg
import pytest

from tests.unit.registry.certificates import Authority
from tests.unit.serve.memory_subscriptions import MemorySubscriptions
from tests.unit.serve.postgres.served import run
from tidegate.errors import SettingsError
from tidegate.serve.addresses import ListenAddress
from tidegate.serve.postgres.scram import make_verifier
from tidegate.serve.server import ServeSettings, check_settings, read_token_file, serving

LOOPBACK = ListenAddress("127.0.0.1", 0)
EVERYWHERE = ListenAddress("0.0.0.0", 0)


def private(file: Path, text: str, mode: int = 0o600) -> Path:
    file.write_text(text)
    file.chmod(mode)
    return file


def test_loopback_needs_nothing() -> None:
    checked = check_settings(ServeSettings(LOOPBACK, LOOPBACK))
    assert checked.admission.users is None
    assert not checked.admission.tls_required


def test_no_front_at_all_is_refused() -> None:
    with pytest.raises(SettingsError, match="no front"):
        check_settings(ServeSettings())


@pytest.mark.parametrize("settings", [ServeSettings(postgres=EVERYWHERE), ServeSettings(web=EVERYWHERE)])
def test_a_front_that_others_reach_is_refused_without_tls_and_secret(settings: ServeSettings) -> None:
    with pytest.raises(SettingsError, match="which others reach"):
        check_settings(settings)


def test_a_front_that_others_reach_is_served_with_both(tmp_path: Path) -> None:
    pair = Authority().pair("server")
    for name, pem in (("cert", pair.cert), ("key", pair.key)):
        (tmp_path / name).write_bytes(pem)
    settings = ServeSettings(
        postgres=EVERYWHERE,
        web=EVERYWHERE,
        users=private(tmp_path / "users", f"ada:{make_verifier('s3cret')}"),
        tls_certificate=tmp_path / "cert",
        tls_key=tmp_path / "key",
        token_file=private(tmp_path / "token", "0123456789abcdef\n"),
    )
    checked = check_settings(settings)
    assert checked.admission.tls_required
    assert checked.token == "0123456789abcdef"

    async def test() -> None:
        async with serving(MemorySubscriptions(), checked) as running:
            assert running.postgres is not None
            place = f"host=127.0.0.1 port={running.postgres.port} user=ada dbname=x"
            async with await psycopg.AsyncConnection.connect(f"{place} password=s3cret sslmode=require"):
                pass
            with pytest.raises(psycopg.OperationalError, match="TLS connections alone"):
                await psycopg.AsyncConnection.connect(f"{place} password=s3cret sslmode=disable")

    run(test)


@pytest.mark.parametrize("text", ["", "short", "two words of it all", "x" * 2_000, "\x01" * 20])
def test_a_token_file_has_one_long_word(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="openssl rand"):
        read_token_file(private(tmp_path / "token", text))


def test_a_token_file_is_private(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="chmod 600"):
        read_token_file(private(tmp_path / "token", "0123456789abcdef", 0o640))
    with pytest.raises(SettingsError, match="cannot be read"):
        read_token_file(tmp_path / "none")


def test_both_fronts_serve_one_source() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        source.mark(8)
        async with serving(source, check_settings(ServeSettings(LOOPBACK, LOOPBACK))) as running:
            assert running.postgres is not None
            assert running.web is not None
            place = f"host=127.0.0.1 port={running.postgres.port} user=ada dbname=x"
            async with await psycopg.AsyncConnection.connect(place, autocommit=True) as client:
                cursor = await client.execute("SUBSCRIBE accounts AS OF 5 UP TO 6")
                assert len(await cursor.fetchall()) == 1
            reader, writer = await asyncio.open_connection("127.0.0.1", running.web.port)
            writer.write(b"GET /tables HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b'"columns":["id","balance","note"]' in await reader.read()
            writer.close()

    run(test)


def test_an_address_that_is_taken_is_refused_by_a_sentence() -> None:
    async def test() -> None:
        async with serving(
            MemorySubscriptions(), check_settings(ServeSettings(LOOPBACK, LOOPBACK))
        ) as running:
            for taken in (ServeSettings(postgres=running.postgres), ServeSettings(web=running.web)):
                with pytest.raises(SettingsError, match="cannot be listened on"):
                    async with serving(MemorySubscriptions(), check_settings(taken)):
                        pass

    run(test)
