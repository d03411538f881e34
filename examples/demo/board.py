"""The board of a demo: it has what is known while the demo runs. Threads that read fill it, and the screen
shows it."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import IO, Final, NamedTuple

from examples.demo.happenings import Happening, Kind, disturbance, happening
from sim.store.moments import Moment
from tidegate.changefeed.encoding.record import MarkerRecord, RecordDecoder
from tidegate.client.tail import line_of
from tidegate.hlc import NANOS_PER_SECOND, ZERO, Timestamp
from tidegate.processor.push_policy import PushPolicy
from tidegate.verify import TopicPartition, TopicRecord

_SHOWN_ROWS: Final = 6
_SHOWN_MARKERS: Final = 3
_RATE_WINDOW_S: Final = 5.0
_SAMPLE_S: Final = 1.0
_MS_PER_SECOND: Final = 1_000


class Sample(NamedTuple):
    """The board ``at_s`` seconds after its first sample: rows so far, and the markers' lag in seconds."""

    at_s: float
    rows: int
    lag_s: float | None


class Mark(NamedTuple):
    """A happening on the axis of the samples.

    It came ``at_s`` seconds after the first sample, below 0 if it came before. ``began_s`` is its
    ``began_ns`` on the same axis.
    """

    at_s: float
    kind: Kind
    text: str
    began_s: float | None


@dataclass(slots=True)
class Board:
    """Counts, last records, and what happened. ``committed`` and ``aborted`` are transactions of the source.

    ``hidden_prefix`` is left out where topics are shown. An abandoned transaction is pushed after
    ``pushed_after_s`` seconds.
    """

    hidden_prefix: str
    pushed_after_s: float = PushPolicy().age_ms / _MS_PER_SECOND
    versions: int = 0
    committed: int = 0
    aborted: int = 0
    abandoned: int = 0
    pushes: int = 0
    splits: int = 0
    merges: int = 0
    rows: int = 0
    markers: int = 0
    last_rows: deque[str] = field(default_factory=lambda: deque(maxlen=_SHOWN_ROWS))
    last_markers: deque[str] = field(default_factory=lambda: deque(maxlen=_SHOWN_MARKERS))
    samples: list[Sample] = field(default_factory=list)
    happened: list[Happening] = field(default_factory=list)
    _abandoned: dict[str, Happening] = field(default_factory=dict)
    _sampled_from: float = 0.0
    _sampled_from_ns: int = 0
    _marked: dict[TopicPartition, Timestamp] = field(default_factory=dict)
    _counted: deque[tuple[float, int]] = field(default_factory=deque)

    def follow_store(self, output: IO[str]) -> None:
        """Take the store's progress lines until it ends."""
        for line in output:
            progress = json.loads(line)
            self.versions, self.committed = progress["versions"], progress["committed"]
            self.aborted, self.abandoned = progress["aborted"], progress["abandoned"]
            self.pushes = progress["pushes"]
            self.splits, self.merges = progress["splits"], progress["merges"]
            for fields in progress["moments"]:
                moment = Moment.of(fields)
                others = bool(self._abandoned.keys() - {moment.txn})
                self._note(happening(moment, self.pushed_after_s, others))

    def disturb(self, text: str) -> None:
        """Note what the demo does to a process now."""
        self._note(disturbance(time.time_ns(), text))

    def _note(self, noted: Happening) -> None:
        self.happened.append(noted)
        if noted.kind is Kind.ABANDONED:
            self._abandoned[noted.txn] = noted
        elif noted.txn:
            self._abandoned.pop(noted.txn, None)

    def awaited_s(self) -> list[float]:
        """Return how many seconds each transaction that holds markers now has been abandoned, the longest
        first."""
        now_ns = time.time_ns()
        begun = [noted.at_ns for noted in list(self._abandoned.values())]
        return sorted(((now_ns - at_ns) / NANOS_PER_SECOND for at_ns in begun), reverse=True)

    def marks(self) -> list[Mark]:
        """Return what happened, on the axis of the samples."""
        return [
            Mark(self._at_s(one.at_ns), one.kind, one.text, one.began_ns and self._at_s(one.began_ns))
            for one in self.happened
        ]

    def _at_s(self, at_ns: int) -> float:
        return (at_ns - self._sampled_from_ns) / NANOS_PER_SECOND

    def follow_topics(
        self, records: Iterable[TopicRecord], decoder_of: Callable[[str], RecordDecoder]
    ) -> None:
        """Take the records of the output topics as they come; ``decoder_of`` gives a topic's decoder."""
        for record in records:
            decoder = decoder_of(record.topic)
            decoded = decoder.decode(record.key, record.value, record.headers)
            if isinstance(decoded, MarkerRecord):
                self.markers += 1
                self._marked[TopicPartition(record.topic, record.partition)] = decoded.resolved
                self.last_markers.append(self._line(record, decoder))
            else:
                self.rows += 1
                self.last_rows.append(self._line(record, decoder))

    def _line(self, record: TopicRecord, decoder: RecordDecoder) -> str:
        return line_of(record, decoder).removeprefix(self.hidden_prefix)

    @property
    def resolved(self) -> Timestamp:
        """The lowest of the partitions' last markers: up to there all topics are complete."""
        return min(self._marked.values(), default=ZERO)

    @property
    def lag_s(self) -> float | None:
        """Return the seconds that the resolved timestamp is behind the present; ``None`` before the first
        marker."""
        resolved = self.resolved
        return None if resolved == ZERO else time.time() - resolved.wall / NANOS_PER_SECOND

    def sample(self) -> None:
        """Note the rows and the lag of now, unless the last sample is less than a second old."""
        now = time.monotonic()
        if not self.samples:
            self._sampled_from, self._sampled_from_ns = now, time.time_ns()
        at_s = now - self._sampled_from
        if not self.samples or at_s - self.samples[-1].at_s >= _SAMPLE_S:
            self.samples.append(Sample(at_s, self.rows, self.lag_s))

    def rows_per_second(self) -> float:
        """Return the rows per second over the last seconds. It knows the rows only as of each call."""
        now = time.monotonic()
        self._counted.append((now, self.rows))
        while now - self._counted[0][0] > _RATE_WINDOW_S:
            self._counted.popleft()
        since, rows = self._counted[0]
        return (self.rows - rows) / (now - since) if now > since else 0.0


def in_background(target: object, *arguments: object) -> threading.Thread:
    """Run a reader in a thread that does not keep the process alive."""
    thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread
