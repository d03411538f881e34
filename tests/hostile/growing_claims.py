"""Checkpoints of n ranges, each of which could cost all ranges. Each gives a frontier's work to time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidegate.hlc import NANOS_PER_MS, ResolvedTimestamp, Timestamp
from tidegate.processor.checkpoint import PartitionProgress
from tidegate.processor.range_claims import RangeClaims
from tidegate.raftlog.entry import Generation, Offset, RangeId

#: A range's id, its generation, and where its keys begin and end.
_Claim: TypeAlias = tuple[int, int, int, int]
Work: TypeAlias = Callable[[], object]


def _report(claims: Iterable[_Claim], at_ms: int = 1_000, ended: Sequence[int] = ()) -> PartitionProgress:
    rows = list(claims)
    return PartitionProgress(
        0,
        Offset(at_ms),
        (),
        [start.to_bytes(8) for _, _, start, _ in rows],
        [end.to_bytes(8) for _, _, _, end in rows],
        [ResolvedTimestamp(Timestamp(at_ms * NANOS_PER_MS))] * len(rows),
        [RangeId(range_id) for range_id, *_ in rows],
        [Generation(generation) for _, generation, *_ in rows],
        at_ms,
        ended=[RangeId(range_id) for range_id in ended],
        elapsed_ms=at_ms,
    )


def _work(reports: Iterable[PartitionProgress]) -> Work:
    """Count the reports one by one."""
    told = list(reports)

    def count() -> RangeClaims:
        claims = RangeClaims()
        for report in told:
            claims.count([report])
        return claims

    return count


def _nested(count: int, rising: int = 0) -> list[_Claim]:
    return [(each + 1, 1 + rising * each, each, 4 * count - each) for each in range(count)]


def _rounds(claims: Sequence[_Claim]) -> Work:
    return _work(_report(claims, at_ms) for at_ms in (1_000, 9_000, 17_000))


def nested(count: int) -> Work:
    """Each range is a little narrower than the last; three rounds."""
    return _rounds(_nested(count))


def nested_from_within(count: int) -> Work:
    """Each range is a little wider than the last."""
    return _rounds(_nested(count)[::-1])


def nested_in_rising_generations(count: int) -> Work:
    """Each range takes the keys of the last."""
    return _rounds(_nested(count, rising=1))


def stairs(count: int) -> Work:
    """Each range begins and ends a little higher than the last."""
    return _rounds([(each + 1, 1, each, each + count) for each in range(count)])


def of_the_same_keys(count: int) -> Work:
    """All ranges have the same keys."""
    return _rounds([(each + 1, 1, 0, 1) for each in range(count)])


def nested_and_ending(count: int) -> Work:
    """Nested ranges that end one by one, each in a checkpoint of its own."""
    ends = (_report((), 2_000, [each + 1]) for each in range(count))
    return _work([_report(_nested(count)), *ends])


def one_over_all_that_claims_again(count: int) -> Work:
    """Ranges side by side, and one over all of them that takes their keys anew with each checkpoint."""
    beside = [(each + 1, 1, each, each + 1) for each in range(count)]
    again = (_report([(count + 1, 2 + each, 0, count)], 2_000 + each) for each in range(count))
    return _work([_report(beside), *again])


def one_over_all_that_was_there_first(count: int) -> Work:
    """One range over all keys, and then others side by side, each in a checkpoint of its own."""
    over = (count + 1, 1, 0, count)
    beside = (_report([(each + 1, 1, each, each + 1), over], 2_000 + each) for each in range(count))
    return _work([_report([over]), *beside])


def one_over_all_that_comes_and_goes(count: int) -> Work:
    """The same, and that one ends each time."""
    beside = [(each + 1, 1, each, each + 1) for each in range(count)]
    over = (
        _report([(count + 1 + each, 1, 0, count)], 2_000 + each, [count + 1 + each]) for each in range(count)
    )
    return _work([_report(beside), *over])


def taken_again_and_again(count: int) -> Work:
    """One range takes the keys of a silent one in as many generations."""
    again = (_report([(2, 2 + each, 0, 1)], 2_000 + 10 * each) for each in range(count))
    return _work([_report([(1, 1, 0, 1)]), *again])


def pairs(count: int) -> Work:
    """Overlaps of two ranges each, which begin in a checkpoint of their own."""
    return _work(
        _report([(2 * each + side, 1, 2 * each, 2 * each + 1) for side in (1, 2)]) for each in range(count)
    )


class GrowingClaims(NamedTuple):
    """Checkpoints by a name: the maker of the work on n of their ranges, and an n that can be measured."""

    name: str
    work: Callable[[int], Work]
    small: int


GROWING_CLAIMS: Final = (
    GrowingClaims("nested ranges", nested, 500),
    GrowingClaims("nested ranges, the narrowest first", nested_from_within, 500),
    GrowingClaims("nested ranges in rising generations", nested_in_rising_generations, 500),
    GrowingClaims("stairs", stairs, 250),
    GrowingClaims("ranges of the same keys", of_the_same_keys, 500),
    GrowingClaims("nested ranges that end one by one", nested_and_ending, 500),
    GrowingClaims("a range over all others claims again", one_over_all_that_claims_again, 500),
    GrowingClaims("a range over all others was there first", one_over_all_that_was_there_first, 500),
    GrowingClaims("ranges over all others come and go", one_over_all_that_comes_and_goes, 500),
    GrowingClaims("keys are taken again and again", taken_again_and_again, 500),
    GrowingClaims("overlaps of two", pairs, 500),
)
