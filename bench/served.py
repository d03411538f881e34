"""Measures the clients of `tidegate serve`: COPY beside a raw consumer, and events for many clients at once.

The server is a process of its own, as it is in use: this module run as ``python -m bench.served``. It serves
one topic, whose records the benchmark writes itself. Its clients are in the process that measures, and do not
parse rows.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final, NamedTuple

from bench.batch_delay import FIRST_ROUNDS, ROUNDS_PER_S, DelayMeter, RoundWriter
from bench.marker_lag import percentile
from bench.subscribe import PARTITIONS, RELATION, bench_table, consume_raw, fill_topic
from bench.topics import BenchTopics
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.subscribe.feed_catalog import FeedCatalog, SubscribableTable
from tidegate.errors import RetryError
from tidegate.hlc import Timestamp
from tidegate.serve.addresses import read_address
from tidegate.serve.feed_subscriptions import FeedSubscriptions
from tidegate.serve.server import ServeSettings, check_settings, serving
from tidegate.subscribe import Relations
from tidegate.subscribe.statement.statement import SubscribeStatement

_ROUNDS: Final = 3
_STARTS_S: Final = 60.0
_SILENCE_S: Final = 60.0
#: Clients that subscribe at the same time. The server refuses some statements if more come at the same time.
_OPENING: Final = 32
_FRONTIER: Final = b'"frontier": "'


class CopyCost(NamedTuple):
    """COPY of all changes of a topic to one client of PostgreSQL; ``of_raw`` is its rate over that of a raw
    consumer."""

    rows: int
    rows_per_s: float
    of_raw: float


class EventDelay(NamedTuple):
    """Delays from the time when a marker can be read to the time when a client gets its event, over all
    clients.

    ``readers`` is how many consumers of Kafka the server has for them.
    """

    clients: int
    rows_per_s: int
    events: int
    readers: int
    p50_ms: float
    p99_ms: float


class _OneTable(FeedCatalog):
    """The catalogue of an application whose only table is a topic of this benchmark."""

    def __init__(self, table: SubscribableTable) -> None:
        self._table = table

    def table(self, statement: SubscribeStatement, feed: object = None) -> SubscribableTable:  # noqa: ARG002 - it has one
        return self._table

    def relations(self) -> Relations:
        return Relations([RELATION])


class _BenchSubscriptions(FeedSubscriptions):
    """Serves one topic."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(KafkaConnection(bootstrap), "bench")
        self._one = _OneTable(bench_table(bootstrap, topic))

    def _read(self) -> FeedCatalog:
        return self._one


class _Addresses(NamedTuple):
    postgres: int
    web: int


def copy_cost(topics: BenchTopics, rows: int, seed: int) -> CopyCost:
    """Read a topic of ``rows`` rows by COPY and by a raw consumer in turn; medians count."""
    import psycopg

    topic = f"copy-{uuid.uuid4().hex[:8]}"
    topics.create(topic, PARTITIONS)
    end = fill_topic(topics.bootstrap, topic, rows, seed, with_before=False)
    up_to = Timestamp(end.wall, 1).decimal()
    statement = f"COPY (SUBSCRIBE orders ENVELOPE UPSERT (KEY (id)) AS OF 1 UP TO {up_to}) TO STDOUT"
    raw, copied = [], []
    with _server(topics.bootstrap, topic) as at:
        for _ in range(_ROUNDS):
            began = time.perf_counter()
            consume_raw(topics.bootstrap, topic)
            raw.append(time.perf_counter() - began)
            parameters = {"host": "127.0.0.1", "port": at.postgres, "user": "bench", "dbname": "bench"}
            with psycopg.connect(**parameters, autocommit=True) as client:  # type: ignore[arg-type]
                began = time.perf_counter()
                with client.cursor().copy(statement) as copy:
                    count = sum(bytes(block).count(b"\n") for block in copy)
                copied.append(time.perf_counter() - began)
            if count != rows:
                raise RetryError(f"COPY gave {count} rows of {rows}.")
    return CopyCost(rows, rows / median(copied), median(raw) / median(copied))


def event_delay(topics: BenchTopics, seconds: float, clients: int, rows_per_s: int, seed: int) -> EventDelay:
    """Send a topic that is being written to ``clients`` clients of server-sent events, for ``seconds``
    seconds.
    """
    topic = f"events-{uuid.uuid4().hex[:8]}"
    topics.create(topic, PARTITIONS)
    meter, rounds = DelayMeter(), FIRST_ROUNDS + int(seconds * ROUNDS_PER_S)
    begin = time.time_ns()
    writer = RoundWriter(topics.bootstrap, topic, meter, begin, rows_per_s // ROUNDS_PER_S, seed)
    writer.write(0)
    writer.flush()
    meters = [meter.of_another_reader() for _ in range(clients)]
    thread = threading.Thread(target=writer.run, args=(rounds,), daemon=True)
    with _server(topics.bootstrap, topic) as at:
        last = Timestamp(begin + rounds)
        readers = asyncio.run(_take_events(at.web, meters, last, thread))
    thread.join()
    delays = sorted(delay * 1e3 for each in meters for delay in each.delays_s()[FIRST_ROUNDS:])
    p50, p99 = percentile(delays, 0.5), percentile(delays, 0.99)
    return EventDelay(clients, rows_per_s, len(delays), readers, p50, p99)


async def _take_events(port: int, meters: list[DelayMeter], last: Timestamp, writes: threading.Thread) -> int:
    """Have every client begin, then write. Return how many readers the server had meanwhile."""
    began, opening = asyncio.Semaphore(0), asyncio.Semaphore(_OPENING)
    tasks = [asyncio.create_task(_client(port, meter, last, began, opening)) for meter in meters]
    for _ in tasks:
        await asyncio.wait_for(began.acquire(), _SILENCE_S)
    writes.start()
    readers = await asyncio.to_thread(_readers, port)
    await asyncio.gather(*tasks)
    return readers


async def _client(
    port: int, meter: DelayMeter, last: Timestamp, began: asyncio.Semaphore, opening: asyncio.Semaphore
) -> None:
    statement = urllib.parse.quote("SUBSCRIBE orders ENVELOPE UPSERT (KEY (id))")
    await opening.acquire()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    writer.write(
        f"GET /subscribe?statement={statement} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    is_first = True
    while True:
        line = await asyncio.wait_for(reader.readline(), _SILENCE_S)
        if not line:
            raise RetryError("The server has ended an event stream before its last marker.")
        at = line.rfind(_FRONTIER)
        if not line.startswith(b"data:") or at < 0:
            continue
        text = line[at + len(_FRONTIER) :].split(b'"', 1)[0].decode()
        wall, _, logical = text.partition(".")
        meter.given(Timestamp(int(wall), int(logical)), time.perf_counter())
        if is_first:
            began.release()
            opening.release()
            is_first = False
        if int(wall) >= last.wall:
            break
    writer.close()


def _readers(port: int) -> int:
    """Return how many consumers of Kafka the server has, as it says itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=_SILENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("tidegate_serve_readers{"))


@contextmanager
def _server(bootstrap: str, topic: str) -> Iterator[_Addresses]:
    """Run the server in a process of its own."""
    command = [sys.executable, "-m", "bench.served", bootstrap, topic]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - this module
        try:
            assert process.stdout is not None
            told = process.stdout.readline().split()
            if len(told) != len(_Addresses._fields):
                raise RetryError("The server of the benchmark did not start: its error stands above.")
            yield _Addresses(*map(int, told))
        finally:
            process.terminate()


async def _serve(bootstrap: str, topic: str) -> None:
    settings = ServeSettings(postgres=read_address("127.0.0.1:0"), web=read_address("127.0.0.1:0"))
    async with serving(_BenchSubscriptions(bootstrap, topic), check_settings(settings)) as running:
        assert running.postgres is not None
        assert running.web is not None
        print(running.postgres.port, running.web.port, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:3]))
