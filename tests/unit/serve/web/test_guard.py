"""Tests who may ask."""

from __future__ import annotations

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from tests.unit.serve.postgres.served import run
from tests.unit.serve.web.served_web import LOOPBACK, serving_web
from tidegate.serve.addresses import ListenAddress
from tidegate.serve.web.guard import WebAccess


@pytest.mark.parametrize(
    ("address", "host", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1:6880", True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "127.9.9.9:1", True),
        ("127.0.0.1", "[::1]:6880", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example", False),
        ("127.0.0.1", "user@127.0.0.1", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "feeds.example", True),
        ("127.0.0.1", "10.1.2.3", False),
        ("10.1.2.3", "10.1.2.3:6880", True),
        ("10.1.2.3", "10.1.2.4", False),
        ("0.0.0.0", "10.1.2.4:6880", True),
        ("::", "[fe80::1]", True),
        ("0.0.0.0", "evil.example", False),
    ],
)
def test_a_host_is_the_address_or_an_allowed_name(address: str, host: str, allowed: bool) -> None:
    access = WebAccess(ListenAddress(address, 6880), allowed_hosts=frozenset({"feeds.example"}))
    assert access.allows_host(host) is allowed


def test_a_page_of_another_name_reads_nothing() -> None:
    async def test() -> None:
        async with serving_web() as served:
            for path in ("/", "/tables", "/subscribe?statement=x", "/health"):
                answer = await served.get(path, host="evil.example")
                assert answer.status == 403
                answer.close()
            answer = await served.get("/tables", host="127.0.0.1\r\nHost: evil.example")
            assert answer.status in (400, 403)
            answer.close()

    run(test)


def test_a_page_of_another_server_may_not_read() -> None:
    async def test() -> None:
        async with serving_web() as served:
            for origin, status in (
                ("http://evil.example", 403),
                ("null", 403),
                ("http://127.0.0.1:1", 403),
                (f"http://{served.place}", 200),
            ):
                answer = await served.get("/tables", origin=origin)
                assert answer.status == status
                answer.close()
            with pytest.raises(InvalidStatus) as caught:
                async with connect(
                    f"ws://{served.place}/subscribe?statement=x",
                    additional_headers={"Origin": "http://evil.example"},
                ):
                    pass
            assert caught.value.response.status_code == 403

    run(test)


def test_a_page_of_another_site_may_link_here_and_have_nothing() -> None:
    async def test() -> None:
        async with serving_web() as served:
            for path, site, mode, status in (
                ("/tables", "cross-site", "no-cors", 403),
                ("/tables", "cross-site", "navigate", 403),
                ("/tidegate.js", "cross-site", "no-cors", 403),
                ("/", "cross-site", "navigate", 200),
                ("/tables", "same-origin", "cors", 200),
                ("/tables", "none", "navigate", 200),
            ):
                answer = await served.get(path, sec_fetch_site=site, sec_fetch_mode=mode)
                assert answer.status == status, (path, site, mode)
                answer.close()

    run(test)


def test_a_secret_is_wanted_for_all_but_the_page() -> None:
    async def test() -> None:
        async with serving_web(access=WebAccess(LOOPBACK, "s3cret")) as served:
            for path, headers, status in (
                ("/", {}, 200),
                ("/tidegate.js", {}, 200),
                ("/health", {}, 200),
                ("/tables", {}, 401),
                ("/tables", {"authorization": "Bearer wrong"}, 401),
                ("/tables", {"authorization": "Basic s3cret"}, 401),
                ("/tables", {"authorization": "Bearer s3cret"}, 200),
                ("/tables", {"authorization": "bearer s3cret"}, 200),
                ("/subscribe?statement=x", {}, 401),
                ("/subscribe?statement=x", {"authorization": "Bearer s3cret"}, 400),
                ("/%2f", {}, 401),
                ("//", {}, 401),
            ):
                answer = await served.get(path, None, **headers)
                assert answer.status == status, path
                answer.close()
            with pytest.raises(InvalidStatus):
                async with connect(f"ws://{served.place}/subscribe?statement=x"):
                    pass

    run(test)


@pytest.mark.parametrize(
    "headers", [{"content_length": "1"}, {"transfer_encoding": "chunked"}, {"content_length": "1000000"}]
)
def test_a_request_with_a_body_is_refused_and_its_connection_ends(headers: dict[str, str]) -> None:
    async def test() -> None:
        async with serving_web() as served:
            answer = await served.get("/health", None, **headers)
            assert answer.status == 413
            assert answer.headers["connection"] == "close"
            assert b"without a body" in await answer.reader.read()
            answer.close()
            empty = await served.get("/health", content_length="0")
            assert empty.status == 200
            empty.close()

    run(test)
