"""Explains in which log partitions a feed is behind the ranges, because its sink takes no rows or it has
missing versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidegate.changefeed.definition.sink_servers import sink_servers
from tidegate.client.why.evidence import DeliveryEvidence, Evidence, LaggingEvidence
from tidegate.client.why.finding import SEVERAL, Cause, Finding, behind_present, counted, duration, size
from tidegate.hlc import ZERO

_RESERVE_MS: Final = 86_400_000  # a feed with more than a day before versions are removed needs no warning
_STANDING_MS: Final = 120_000  # by then the scan was asked for a few times
_SPOOLING: Final = "spooling"
_STALLED: Final = "stalled"
_NO_SCANS: Final = "No scan is under way there: its sink has to follow first"


def lag_findings(evidence: Evidence) -> list[Finding]:
    """Return findings about partitions where the feed is detached, the worst first, then where it has missing
    versions.

    Returns an empty list if there are none. If the feed is detached in a partition, its sink is the first
    cause, and missing versions follow from that.
    """
    detached = sorted(
        (each for each in evidence.workers.deliveries if each.state in (_SPOOLING, _STALLED)),
        key=lambda each: (each.state != _STALLED, each.partition),
    )
    return [*_sinks(evidence, detached), *_lagging(evidence, {each.partition for each in detached})]


def held_findings(evidence: Evidence) -> list[Finding]:
    """Return the finding that the sink's address means another cluster than the one with the feed's topics.

    Returns nothing if the address means that cluster.
    """
    state = evidence.feed.current_state
    if state is None or not state.error:
        return []
    sentence = f"{state.error[:1].upper()}{state.error[1:]}."
    return [Finding(Cause.SINK, sentence, {"sink_cluster": state.sink_cluster})]


# ---- a sink that takes no rows


def _sinks(evidence: Evidence, detached: list[DeliveryEvidence]) -> Iterator[Finding]:
    for each in detached[:SEVERAL]:
        yield _sink_of(evidence, each)
    if len(detached) > SEVERAL:
        yield _so_too(Cause.SINK, "is", [each.partition for each in detached[SEVERAL:]])


def _sink_of(evidence: Evidence, delivery: DeliveryEvidence) -> Finding:
    definition = evidence.feed.definition
    assert definition is not None  # a feed that runs has one
    servers = ", ".join(sink_servers(definition.sink))
    tell = _stalled if delivery.state == _STALLED else _spooling
    return Finding(
        Cause.SINK,
        f"The sink {servers} does not acknowledge the feed's rows of log partition {delivery.partition}, and "
        f"its high-water waits for them: {tell(delivery)}. Check that the brokers of that cluster run and "
        "have room (docs/operations.md, Sinks).",
        {
            "partition": delivery.partition,
            "state": delivery.state,
            "worker": delivery.worker,
            "sink": servers,
            "waiting_bytes": delivery.waiting_bytes,
            "spool_bytes": delivery.spool_bytes,
        },
    )


def _spooling(delivery: DeliveryEvidence) -> str:
    return (
        f"the feed is detached there (spooling), {size(delivery.waiting_bytes)} of rows wait in its producer "
        f"and {size(delivery.spool_bytes)} in its spool on disk. Nothing is lost, and it goes on by itself "
        "once they are acknowledged"
    )


def _stalled(delivery: DeliveryEvidence) -> str:
    return (
        "the feed is detached there (stalled), for its spool was full, or lost, or a scan had not come to "
        f"its end, so nothing more comes out; {size(delivery.waiting_bytes)} of rows wait in its producer. "
        "Nothing is lost: once these are acknowledged scans bring what it misses, as long as the store has "
        "it (gc.ttlseconds)"
    )


# ---- a feed with missing versions


def _lagging(evidence: Evidence, detached: set[int]) -> Iterator[Finding]:
    """Yield findings about the partitions in which the feed has missing versions, the lowest first.

    ``detached`` are the partitions in which the feed is detached: no scan is made for it there.
    """
    places = sorted(evidence.workers.lagging, key=lambda each: (each.complete_to or ZERO, each.partition))
    for each in places[:SEVERAL]:
        yield _lagging_in(evidence, each, is_detached=each.partition in detached)
    if len(places) > SEVERAL:
        yield _so_too(Cause.LAGGING, "does", [each.partition for each in places[SEVERAL:]])


def _lagging_in(evidence: Evidence, lagging: LaggingEvidence, *, is_detached: bool) -> Finding:
    has, reserve = _has(evidence, lagging), _reserve(lagging)
    scans = _NO_SCANS if is_detached else _scans(evidence, lagging)
    return Finding(
        Cause.LAGGING,
        f"The feed misses versions of {counted(lagging.ranges, 'range')} of log partition "
        f"{lagging.partition}, and its high-water waits for them: {has}. {scans}.{reserve}",
        {
            "partition": lagging.partition,
            "range_id": lagging.range_id,
            "ranges": lagging.ranges,
            "complete_to": None if lagging.complete_to is None else str(lagging.complete_to),
            "scans": lagging.scans,
            "gc_reserve_ms": lagging.gc_reserve_ms,
            "standing_range": lagging.standing_range,
            "standing_request": lagging.standing_request,
            "standing_ms": lagging.standing_ms,
        },
    )


def _has(evidence: Evidence, lagging: LaggingEvidence) -> str:
    """Return a text that says up to where the feed was given the versions of its lowest range."""
    if lagging.complete_to is None:
        return f"the initial scan has not come to the end of range {lagging.range_id}"
    return (
        f"of range {lagging.range_id} it has what was committed up to {lagging.complete_to}, "
        f"{behind_present(evidence.now_ms - lagging.complete_to.wall_ms)}"
    )


def _scans(evidence: Evidence, lagging: LaggingEvidence) -> str:
    if not lagging.scans:
        return "No scan is under way there: others come first, or its ranges wait or are broken themselves"
    requests = f"{evidence.workers.log.removesuffix('raftlog')}requests"
    under_way = f"There {'is' if lagging.scans == 1 else 'are'} {counted(lagging.scans, 'scan')} under way"
    if lagging.standing_ms is not None and lagging.standing_ms >= _STANDING_MS:
        return (
            f"{under_way}; that of range {lagging.standing_range} has brought nothing for "
            f"{duration(lagging.standing_ms)} of the log's time, and was asked for again and again, last by "
            f"request {lagging.standing_request}. Check that the source reads {requests} and answers scans; "
            "if it has no such range any more, have it write the range's RangeEnd"
        )
    return f"{under_way}; should that not change, check that the source reads {requests} and answers scans"


def _reserve(lagging: LaggingEvidence) -> str:
    """Return a sentence about the time that is left before the feed fails; empty if it is more than a day."""
    if lagging.gc_reserve_ms is None or lagging.gc_reserve_ms > _RESERVE_MS:
        return ""
    return (
        f" What it misses is {duration(lagging.gc_reserve_ms)} above what the store has removed; at 0 the "
        "feed fails. A longer gc.ttlseconds of the tables gives it time."
    )


def _so_too(cause: Cause, verb: str, partitions: list[int]) -> Finding:
    which = "log partition" if len(partitions) == 1 else "log partitions"
    named = ", ".join(map(str, partitions))
    return Finding(cause, f"So it {verb} in {which} {named}.", {"partitions": partitions})
