"""The web front: pages, tables, TLS, limits, bytes that are no HTTP; its script in Node; its page."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import itertools
import json
import shutil
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.client.why.hand_evidence import evidence, held
from tests.unit.registry.certificates import Authority
from tests.unit.serve.memory_subscriptions import MemorySubscriptions, random_commits, until
from tests.unit.serve.postgres.served import run
from tests.unit.serve.web.served_web import LONG_S, LOOPBACK, ServedWeb, serving_web
from tidegate.changefeed.definition.feed import TableName
from tidegate.serve.feeds.feed_lookup import FeedsLook
from tidegate.serve.feeds.shown_feed import explained_feed
from tidegate.serve.limits import ServeLimits
from tidegate.serve.web.front import statement_of
from tidegate.serve.web.guard import WebAccess
from tidegate.serve.web.watched_feeds import WatchedFeeds
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.switches import SubscribeSwitches
from tidegate.subscribe.updates.relation import Relation

FILES = Path("tidegate/serve/web/files")


def test_the_page_has_its_files_and_a_policy() -> None:
    async def test() -> None:
        async with serving_web() as served:
            for path, kind in (
                ("/", "text/html"),
                ("/page.js", "text/javascript"),
                ("/feeds.html", "text/html"),
                ("/feeds.js", "text/javascript"),
                ("/tidegate.js", "text/javascript"),
            ):
                answer = await served.get(path)
                assert answer.status == 200
                assert answer.headers["content-type"].startswith(kind)
                assert "default-src 'self'" in answer.headers["content-security-policy"]
                assert answer.headers["x-content-type-options"] == "nosniff"
                answer.close()

    run(test)


def test_no_file_of_the_page_asks_another_server() -> None:
    for file in FILES.iterdir():
        text = file.read_text().replace("http://127.0.0.1:6880/tidegate.js", "")
        assert "http:" not in text
        assert "https:" not in text
        assert "innerHTML" not in text


def test_tables_have_a_statement_that_shows_them() -> None:
    async def test() -> None:
        async with serving_web() as served:
            answer = await served.get("/tables")
            (table,) = json.loads(await answer.body())["tables"]
            assert table["columns"] == ["id", "balance", "note"]
            assert table["statement"].endswith('"accounts" ENVELOPE UPSERT (KEY ("id"))')
            answer.close()

    run(test)


def look_at_feeds() -> FeedsLook:
    """A look at a feed that a transaction holds back; each is a second after the one before."""
    at_ms = next(_SECONDS) * 1_000
    return FeedsLook(at_ms, (replace(explained_feed(evidence(held()), at_ms), lag_ms=at_ms),))


_SECONDS = itertools.count(1)


def test_feeds_are_shown_to_those_who_may_ask() -> None:
    async def test() -> None:
        feeds = WatchedFeeds(look_at_feeds)
        async with serving_web(access=WebAccess(LOOPBACK, "0123456789abcdef"), feeds=feeds) as served:
            for headers, status in (({}, 401), ({"authorization": "Bearer 0123456789abcdef"}, 200)):
                answer = await served.get("/feeds", None, **headers)
                assert answer.status == status
                body = json.loads(await answer.body())
                answer.close()
            (feed,) = body["feeds"]
            assert (feed["feed"], feed["why"]["cause"]) == ("bank", "transaction")
            assert feeds.looks == 1, "who may not ask has nothing looked at"

    run(test)


def test_a_server_that_looks_at_no_feeds_says_so() -> None:
    async def test() -> None:
        async with serving_web() as served:
            answer = await served.get("/feeds")
            assert (answer.status, json.loads(await answer.body())["error"]["code"]) == (404, "no_feeds")
            answer.close()

    run(test)


def test_a_statement_quotes_what_needs_it() -> None:
    odd = Relation(TableName('a"b', "s c", "d.e"), ("Key", "x"), ("Key",))
    found = parse_subscribe(statement_of(odd))
    assert found.subject.parts == ("d.e", "s c", 'a"b')  # type: ignore[union-attr]
    assert found.output.key[0].parts == ("Key",)
    assert parse_subscribe(statement_of(Relation(TableName("t"), ("x",)))).output.key == ()
    assert parse_subscribe(statement_of(odd, SubscribeSwitches(envelope_upsert=False))).output.key == ()


def test_tls_is_spoken(tmp_path: Path) -> None:
    authority = Authority()

    async def test() -> None:
        async with serving_web(tls=authority.server_context(tmp_path)) as served:
            client = ssl.create_default_context(cadata=authority.cert.decode())
            answer = await served.get("/health", client)
            assert json.loads(await answer.body()) == {"status": "ok"}
            answer.close()

    run(test)


def test_connections_and_requests_have_bounds() -> None:
    async def test() -> None:
        limits = ServeLimits(web_connections=2, request_bytes=4_000, startup_s=LONG_S)
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        async with serving_web(source, limits=limits) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            writer.write(b"GET /" + b"x" * 9_000)
            assert (await reader.readline()).split()[1] in (b"400", b"431")
            writer.close()
            first = await served.subscribe("SUBSCRIBE accounts")
            assert first.status == 200
            refused = [await served.get("/health") for _ in range(3)]
            assert [each.status for each in refused][-1] == 503
            for each in (first, *refused):
                each.close()
        async with serving_web(limits=ServeLimits(startup_s=0.2)) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            writer.write(b"GET / HTTP/1.1\r\nX-Slow: ")
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()

    run(test)


def test_handshakes_of_tls_have_a_time_and_are_counted(tmp_path: Path) -> None:
    authority = Authority()
    trusted = ssl.create_default_context(cadata=authority.cert.decode())

    async def test() -> None:
        limits = ServeLimits(web_connections=2, startup_s=LONG_S)
        async with serving_web(limits=limits, tls=authority.server_context(tmp_path)) as served:
            ended, writers = await silent_handshakes(served, 5)
            done, begun = await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
            assert (len(done), len(begun)) == (1, 4), "one more than twice the bound"
            for writer in writers:
                writer.close()
        limits = replace(limits, startup_s=0.2)
        async with serving_web(limits=limits, tls=authority.server_context(tmp_path)) as served:
            ended, writers = await silent_handshakes(served, 4)
            assert await asyncio.gather(*ended) == [b""] * 4
            for writer in writers:
                writer.close()
            assert served.front._listener is not None
            served.front._listener._handshake_s = LONG_S
            served.give(LONG_S)
            assert (await served.get("/health", trusted)).status == 200

    run(test)


async def silent_handshakes(
    served: ServedWeb, count: int
) -> tuple[list[asyncio.Future[bytes]], list[asyncio.StreamWriter]]:
    """Connect so often and say nothing. Returns what is read of each, and the connections."""
    silent = [await asyncio.open_connection("127.0.0.1", served.front.address[1]) for _ in range(count)]
    return [asyncio.ensure_future(reader.read()) for reader, _ in silent], [writer for _, writer in silent]


@pytest.mark.long
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [
                    b"GET ",
                    b"/subscribe",
                    b" HTTP/1.1\r\n",
                    b"Host: localhost\r\n",
                    b"\r\n",
                    b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
                ]
            ),
        ),
        max_size=8,
    )
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=30)
def test_no_bytes_end_the_server_or_hang_it(sent: list[bytes]) -> None:
    async def test() -> None:
        async with serving_web(limits=ServeLimits(startup_s=0.05)) as served:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.front.address[1])
            writer.write(b"".join(sent))
            writer.write_eof()
            await reader.read()
            writer.close()
            served.give(LONG_S)
            answer = await served.get("/health")
            assert answer.status == 200
            answer.close()

    run(test)


def test_the_end_of_the_server_ends_its_streams() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"))
        async with serving_web(source) as served:
            answer = await served.subscribe("SUBSCRIBE accounts")
            await answer.message()
            await answer.message()
            await served.front.close()
            assert await answer.message() is None
            answer.close()

    run(test)


NODE = """
import { subscribe } from "./tidegate.mjs";
const [url, total] = [process.argv[2], Number(process.argv[3])];
let batches = 0;
const sum = (rows) => [...rows.values()].reduce((all, row) => all + row.balance, 0);
for (const form of ["ENVELOPE UPSERT (KEY (id))", "", "ENVELOPE DEBEZIUM (KEY (id)) WITH (PROGRESS)"]) {
  const statement = `SUBSCRIBE accounts ${form} AS OF 1`;
  await new Promise((done) => {
    const open = subscribe(statement, {
      url,
      onChange: (table) => {
        batches += 1;
        if (sum(table.rows) !== total) { console.log("WRONG", statement, sum(table.rows)); process.exit(1); }
        if (table.frontier.startsWith("30.")) { open.close(); done(); }
      },
      onError: (error) => console.log(JSON.stringify(error)),
    });
  });
}
await new Promise((done) => {
  const onState = (state) => state === "ended" && done();
  subscribe("SUBSCRIBE nothing", { url, onState, onError: (error) => console.log(error.code) });
});
console.log("batches", batches);
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_script_keeps_a_table_whose_sum_never_wavers(tmp_path: Path) -> None:
    shutil.copy(FILES / "tidegate.js", tmp_path / "tidegate.mjs")
    (tmp_path / "run.mjs").write_text(NODE)

    async def test() -> None:
        source = MemorySubscriptions()
        for wall, rows in random_commits(3, range(2, 31)):
            source.commit(wall, *rows)
        async with serving_web(source) as served:
            node = await asyncio.create_subprocess_exec(
                *("node", str(tmp_path / "run.mjs"), f"http://{served.place}", "8000"),
                stdout=asyncio.subprocess.PIPE,
            )
            assert node.stdout is not None
            shown = (await node.stdout.read()).decode().splitlines()
            assert (await node.wait(), shown) == (0, ["unknown_relation", "batches 90"])

    run(test)


RESUMES = """
import { subscribe } from "./tidegate.mjs";
const states = [];
const open = subscribe("SUBSCRIBE accounts ENVELOPE UPSERT (KEY (id))", {
  url: process.argv[2],
  onState: (state) => states.push(state),
  onChange: (table) => {
    console.log(JSON.stringify([table.frontier, [...table.rows.values()].map((row) => row.id)]));
    if (table.frontier.startsWith("9.")) { open.close(); console.log(states.join(" ")); }
  },
});
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_script_resumes_after_a_lost_connection(tmp_path: Path) -> None:
    shutil.copy(FILES / "tidegate.js", tmp_path / "tidegate.mjs")
    (tmp_path / "run.mjs").write_text(RESUMES)

    async def test() -> None:
        source = MemorySubscriptions()
        source.commit(5, (1, 1, "a"), (2, 2, "b"))
        async with serving_web(source) as served:
            node = await asyncio.create_subprocess_exec(
                *("node", str(tmp_path / "run.mjs"), f"http://{served.place}"),
                stdout=asyncio.subprocess.PIPE,
            )
            assert node.stdout is not None
            assert json.loads(await node.stdout.readline()) == ["5.0000000001", [1, 2]]
            source.commit(7, (3, 3, "c"))
            assert json.loads(await node.stdout.readline()) == ["7.0000000001", [1, 2, 3]]
            assert served.front._server is not None
            for connection in list(served.front._server.server_state.connections):
                connection.transport.abort()
            await until(lambda: not source.open_streams, "the connection is lost")
            source.commit(9, 1)
            assert json.loads(await node.stdout.readline()) == ["9.0000000001", [2, 3]]
            assert (await node.stdout.readline()).decode().split() == ["live", "waiting", "live"]
            await node.wait()
            assert source.opened == 2

    run(test)


NAMED = """
import { subscribe } from "./tidegate.mjs";
for (const messages of JSON.parse(process.argv[2])) {
  globalThis.fetch = async () => new Response(messages.map((each) => JSON.stringify(each) + "\\n").join(""));
  const open = subscribe("SUBSCRIBE prices", { url: "http://prices" });
  await open.done;
  console.log(JSON.stringify([...open.table.rows.values()]));
}
"""
PRICES = ("id", "before_tax", "tax", "after_tax")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_the_script_takes_columns_by_their_places_and_not_by_their_names(tmp_path: Path) -> None:
    shutil.copy(FILES / "tidegate.js", tmp_path / "tidegate.mjs")
    (tmp_path / "run.mjs").write_text(NAMED)

    def answered(mode: str, columns: tuple[str, ...], key: list[str], *rows: list[Any]) -> list[Any]:
        shown = [["1.0", *row] for row in rows]
        header = {"columns": ["mz_timestamp", *columns], "mode": mode, "key": key, "resumed": False}
        batch = {"rows": shown, "frontier": "2.0", "snapshot": True, "token": "t"}
        return [header, batch, {"end": True}]

    changed = tuple(f"{when}_{name}" for when in ("before", "after") for name in PRICES[1:])
    sent = [
        answered("diffs", ("mz_diff", *PRICES), [], [1, 1, 10, 2, 12], [1, 1, 99, 2, 12]),
        answered("upsert", ("mz_state", *PRICES), ["id"], ["upsert", 1, 10, 2, 12]),
        answered(
            "debezium", ("mz_state", "id", *changed), ["id"], ["insert", 1, None, None, None, 10, 2, 12]
        ),
        answered("diffs", ("mz_diff", "a", "a"), [], [1, 1, 7], [1, 2, 7], [-1, 1, 7]),
        answered(
            "diffs", ("mz_progressed", "mz_diff", "mz_state"), [], [True, None, None], [False, 1, "delete"]
        ),
        # Without a snapshot: what was there before goes, and comes again.
        answered("diffs", ("mz_diff", "a"), [], [-1, 7], [1, 8], [-1, 9], [1, 9], [-1, 9]),
    ]
    price = dict(zip(PRICES, (1, 10, 2, 12), strict=True))

    async def test() -> None:
        node = await asyncio.create_subprocess_exec(
            *("node", str(tmp_path / "run.mjs"), json.dumps(sent)), stdout=asyncio.subprocess.PIPE
        )
        assert node.stdout is not None
        shown = [json.loads(line) for line in (await node.stdout.read()).decode().splitlines()]
        assert shown == [
            [price, price | {"before_tax": 99}],
            [price],
            [price],
            [{"a": 7}],
            [{"mz_state": "delete"}],
            [{"a": 8}],
        ]
        await node.wait()

    run(test)


BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
DRIVER = shutil.which("chromedriver")
MISSING = [
    name
    for name, found in (
        ("chromium", BROWSER),
        ("chromedriver", DRIVER),
        ("selenium", importlib.util.find_spec("selenium")),
    )
    if not found
]
IN_A_BROWSER = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


@IN_A_BROWSER
def test_the_page_shows_a_live_table_in_a_browser() -> None:
    async def test() -> None:
        source = MemorySubscriptions()
        commits = random_commits(3, range(2, 400))
        source.commit(1, *next(iter(commits))[1])
        async with serving_web(source) as served:
            looking = asyncio.ensure_future(asyncio.to_thread(_look, f"http://{served.place}/"))
            await until(lambda: bool(source.open_streams), "the page subscribes")
            for wall, rows in commits:
                source.commit(wall, *rows)
                await asyncio.sleep(0.01)
                if looking.done():
                    break
            assert await looking == {8_000}

    run(test)


@IN_A_BROWSER
def test_the_page_of_feeds_draws_what_it_is_told_and_goes_on() -> None:
    async def test() -> None:
        async with serving_web(feeds=WatchedFeeds(look_at_feeds, interval_s=0.05)) as served:
            title, why, paths = await asyncio.to_thread(_look_at_feeds, f"http://{served.place}/feeds.html")
            assert title == "bank running"
            assert "has been open for" in why
            assert all(path.startswith("M0.0,") for path in paths)

    run(test)


def _look_at_feeds(address: str) -> tuple[str, str, set[str]]:
    """The page's title of the feed, its first sentence, and two plots that differ."""
    browser = _browser()
    try:
        browser.get(address)
        script = (
            "const one = (name) => document.querySelector(name);"
            "return one('.plot path') && [one('.feed h2').textContent, one('.why').textContent,"
            " one('.plot path').getAttribute('d')]"
        )
        paths: set[str] = set()
        title = why = ""
        while len(paths) < 2:
            if found := browser.execute_script(script):
                title, why, path = found
                paths.add(path)
        return title, why, paths
    finally:
        browser.quit()


def _browser() -> Any:
    webdriver = importlib.import_module("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.binary_location = str(BROWSER)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


def _look(address: str) -> set[int]:
    """The sums that the page shows over a while."""
    browser = _browser()
    try:
        browser.get(address)
        sums: set[int] = set()
        script = (
            "return [Number(document.getElementById('batches').textContent), "
            "[...document.querySelectorAll('#body tr')].map(row => Number(row.children[1].textContent))]"
        )
        batches = 0
        while batches < 100:
            batches, balances = browser.execute_script(script)
            if balances:
                sums.add(sum(balances))
        return sums
    finally:
        browser.quit()
