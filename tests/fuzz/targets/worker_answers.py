"""Answers of workers: `tidegate why` and the page of feeds explain them, whatever they are."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from random import Random
from typing import Any, Final

from tests.fuzz.json_mutators import altered_json
from tests.fuzz.target import Target
from tests.hand_log import at
from tests.unit.client.why.hand_evidence import (
    FEED,
    LOW,
    NOW,
    SPAN,
    URL,
    held,
    live,
    parked,
    push,
    ranges,
    view,
)
from tidegate.cli.why import print_explanation
from tidegate.client.why.evidence import Evidence, read_workers
from tidegate.client.why.explanation import explain
from tidegate.client.why.worker_status import read_ranges
from tidegate.errors import InputError
from tidegate.processor.push_policy import LastPush
from tidegate.processor.range_facts import Condition, ScanFacts
from tidegate.processor.status import RangesIn
from tidegate.serve.feeds.shown_feed import explained_feed
from tidegate.worker.operations.report import (
    DeliveryReport,
    FeedReport,
    ForeignReport,
    LaggingReport,
    OverlapReport,
    PartitionReport,
    RegistryReport,
    WorkerReport,
)

_MOST_BEHIND: Final = str(at(20))


def _status(**more: Any) -> bytes:
    """The status of a worker that has something of everything to tell."""
    partitions = tuple(
        PartitionReport(
            number,
            state,
            500,
            lag_records,
            log_time_ms=at(NOW).wall_ms,
            oldest_unacknowledged_ms=9_000 * number,
            held_for=("bank",) * (number == 2),
            lagging=more.get("lagging", ())[number : number + 1],
            deliveries=more.get("deliveries", ())[number : number + 1],
        )
        for number, (state, lag_records) in enumerate((("running", 5), ("waiting", 0), ("held", None)))
    )
    frontier = FeedReport(
        FEED.feed_id, 1, _MOST_BEHIND, 80_000, SPAN.start.hex(), SPAN.end.hex(), _MOST_BEHIND, _MOST_BEHIND
    )
    report = WorkerReport(
        "app",
        None,
        "raftlog",
        3,
        1_000,
        partitions,
        (frontier,),
        (RegistryReport(FEED.feed_id, "http://registry", 3_000, 2, "no answer"),),
        overlaps=more.get("overlaps", ()),
        foreign=(ForeignReport("app-jobs", 3, 0, 17, "no JSON"),),
    )
    return json.dumps(report.as_json()).encode()


_STATUSES: Final = (
    _status(),
    _status(overlaps=(OverlapReport(LOW.start.hex(), LOW.end.hex(), (7, 8), (1, 2), 3),)),
    _status(
        lagging=(LaggingReport(0, FEED.feed_id, 2, None, 7, 1, 0, 5, 7, 3, 300_000),),
        deliveries=(
            DeliveryReport(0, FEED.feed_id, "spooling", 10, 900),
            DeliveryReport(1, FEED.feed_id, "stalled", 10, 900),
        ),
    ),
)
_SCAN: Final = ScanFacts(SPAN, LOW.end, at(20), at(90), at(NOW).wall_ms)
_PUSHED: Final[LastPush] = push()
_RANGES: Final = tuple(
    {"partitions": [{"partition": number, **each.to_json()} for number, each in found.items()]}
    for found in (
        ranges(held(push=_PUSHED), parked()),
        ranges(live(7, LOW, condition=Condition.QUARANTINED, cause="a hole", offset=5), live(8, LOW)),
        ranges(parked(), live(8, SPAN, condition=Condition.HEALING, scan=_SCAN)),
        ranges(live(9, LOW)),
    )
)


def _drawn(altered: str) -> Callable[[Random], bytes]:
    def draw(chance: Random) -> bytes:
        answers = {
            "status": chance.choice(_STATUSES),
            "ranges": json.dumps(chance.choice(_RANGES)).encode(),
        }
        answers[altered] = altered_json(chance, answers[altered])
        return answers["status"] + b"\x00" + answers["ranges"]

    return draw


def _run(data: bytes) -> None:
    status, _, found = data.partition(b"\x00")
    workers = read_workers(FEED.feed_id, {URL: _object(status)})
    told: dict[int, RangesIn] = read_ranges(_object(found), URL)
    evidence = Evidence(FEED.feed_id, view(), at(NOW).wall_ms, workers, told, ())
    explanation = explain(evidence)
    json.dumps((explanation.to_json(), explained_feed(evidence).to_json()))
    with redirect_stdout(io.StringIO()):
        print_explanation(explanation)


def _object(answer: bytes) -> dict[str, Any]:
    """Return what the client makes of an answer before it reads it."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        raise InputError("no JSON") from None
    if not isinstance(value, dict):
        raise InputError("no object")
    return value


TARGETS: Final = tuple(
    Target(f"worker-{answer}", _drawn(answer), _run, (InputError,), weight=0.5)
    for answer in ("status", "ranges")
)
