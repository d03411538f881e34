"""The warehouse loader on topics that feeds have one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyarrow.fs import LocalFileSystem

from tests.unit.spark.warehouse.feed_histories import (
    BUCKETS,
    START,
    TOPICS,
    HistorySource,
    Version,
    as_rows,
    as_versions,
    history_of,
)
from tests.unit.spark.warehouse.hand_loads import (
    A0,
    A1,
    FIRST,
    IN_A0,
    IN_A1,
    PETS,
    account,
    all_of,
    below,
    check_closed,
    check_no_leavings,
    directory,
    plain_loader,
    seconds,
    to_now,
)
from tidegate.client.subscribe.feed_term import FeedTerm
from tidegate.errors import InputError, StateError
from tidegate.hlc import Timestamp
from tidegate.spark.warehouse.load_pass import Loader, run_here
from tidegate.spark.warehouse.manifest import Manifest
from tidegate.spark.warehouse.partition_task import LoadTask, PartitionAnswer
from tidegate.spark.warehouse.snapshots import Warehouse
from tidegate.verify import TopicPartition, TopicRecord


def handed_over() -> HistorySource:
    """A feed that is complete to second 2, and on the same topics a later one from second 5 on.

    What happened between them is nowhere.
    """
    return all_of(
        history_of(
            {
                A0: [account(IN_A0, 0.5), seconds(2), account(IN_A0, 5), seconds(7)],
                A1: [seconds(2), seconds(7)],
                PETS: [seconds(2), seconds(7)],
            }
        )
    )


def ended(source: HistorySource, at: float = 2) -> None:
    """The feed has ended with this high-water."""
    source.terms = dict.fromkeys(TOPICS, FeedTerm(START, START.prev(), seconds(at)))


@pytest.mark.parametrize("loaded_before", [False, True])
def test_the_loader_of_a_feed_that_has_ended_stops_at_a_later_feeds_marker(loaded_before: bool) -> None:
    source = handed_over()
    with directory() as root:
        if loaded_before:
            source.ends = {A0: 2, A1: 1, PETS: 1}
            assert plain_loader(root, source).run_pass().closed == seconds(2).wall
            source.ends = all_of(source.history).ends
        ended(source)
        loading = plain_loader(root, source)
        with pytest.raises(InputError, match=r"offset \d of .* a later feed has the topic\. No feed"):
            to_now(loading)
        assert Warehouse(root).closed == seconds(2)
        check_closed(root, source.history)


def test_what_was_read_of_a_feed_that_ended_meanwhile_is_not_committed() -> None:
    source = handed_over()

    def run(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        answers = run_here(tasks)
        ended(source)
        return answers

    with directory() as root:
        loading = Loader(source, run, root, BUCKETS)
        report = loading.run_pass()
        assert (report.news, report.more) == (False, True)
        assert loading.run_pass().closed == seconds(2).wall
        with pytest.raises(InputError, match="a later feed has the topic"):
            loading.run_pass()
        check_no_leavings(root)


def test_a_high_water_that_rises_after_the_drop_makes_its_marker_the_feeds_own() -> None:
    source = all_of(history_of({A0: [seconds(2), seconds(3)], A1: [seconds(3)], PETS: [seconds(3)]}))
    ended(source, 2)

    def run(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        answers = run_here(tasks)
        ended(source, 3)
        return answers

    with directory() as root:
        loading = Loader(source, run, root, BUCKETS)
        assert loading.run_pass().more
        assert to_now(loading).closed == seconds(3).wall


def test_rows_and_markers_of_an_earlier_feed_are_no_part_of_the_tables() -> None:
    start = seconds(5)
    former = account(IN_A0, 0.5, "deleted between the feeds")
    scanned = Version("accounts", IN_A1, start, "scan")
    lines: dict[TopicPartition, list[Version | Timestamp]] = {
        A0: [former, seconds(5.5), seconds(7)],
        A1: [seconds(5.5), scanned, seconds(7)],
        PETS: [seconds(5.5), seconds(6.5)],
    }
    source = all_of(history_of(lines))
    source.terms = dict.fromkeys(TOPICS, FeedTerm(start, seconds(5.5), None))
    source.starts = {"accounts": start, "pets": START}
    source.ends = {A0: 2, A1: 1, PETS: 1}
    with directory() as root:
        loading = plain_loader(root, source)
        assert not loading.run_pass().news, "the only markers are the earlier feed's"
        source.ends = all_of(source.history).ends
        assert to_now(loading).closed == seconds(6).wall
        assert as_versions("accounts", Warehouse(root).changes("accounts")) == [scanned]


def test_tables_that_have_buckets_of_a_later_feed_are_told() -> None:
    source = handed_over()
    with directory() as root:
        assert plain_loader(root, source).run_pass().closed == seconds(7).wall
        ended(source)
        with pytest.raises(StateError, match="which a later feed has written: the tables may lack"):
            plain_loader(root, source).run_pass()


def test_a_scan_that_has_succeeded_is_loaded_from_a_topic_that_a_later_feed_has() -> None:
    scanned = Version("accounts", IN_A0, START, "scan")
    source = all_of(history_of({A0: [scanned, account(IN_A0, 5), seconds(7)], A1: [], PETS: []}))
    source.complete = frozenset(TOPICS)
    source.terms = dict.fromkeys(TOPICS, FeedTerm(START, START.prev(), START))
    with directory() as root:
        for _ in range(2):
            assert to_now(plain_loader(root, source)).closed == FIRST.wall
        assert as_rows(Warehouse(root).rows("accounts")) == {IN_A0: ("scan", START)}


def scanned_once(*others: Version | Timestamp) -> HistorySource:
    """A scan of ``pets`` that has succeeded, with these records after it, and ``accounts`` to second 2."""
    pet = Version("pets", 1, START, "scan")
    source = all_of(
        history_of({PETS: [pet, *others], A0: [seconds(1), seconds(2)], A1: [seconds(1), seconds(2)]})
    )
    source.complete = frozenset({"pets"})
    source.terms["pets"] = FeedTerm(START, START.prev(), START)
    return source


def test_rows_of_a_later_feed_are_not_in_the_bucket_of_a_scan_that_has_succeeded() -> None:
    assert BUCKETS.of(START.next()) == BUCKETS.of(START)
    later = [Version("pets", 1, START.next(), "later feed"), Version("pets", 2, seconds(0.5), "later feed")]
    with directory() as root:
        assert to_now(plain_loader(root, scanned_once(*later))).closed == seconds(2).wall
        assert as_rows(Warehouse(root).rows("pets")) == {1: ("scan", START)}


def test_a_topic_that_is_loaded_to_its_end_is_not_read_again_whatever_has_become_of_it() -> None:
    source = scanned_once()
    whole = source.ends
    with directory() as root:
        source.ends = whole | {A0: 1, A1: 1}
        assert to_now(plain_loader(root, source)).closed == seconds(1).wall
        source.history.records[PETS].append(TopicRecord(*PETS, 1, b"[1]", b"of another envelope", 0))
        source.lows[PETS], source.ends = 1, whole | {PETS: 2}
        assert to_now(plain_loader(root, source)).closed == seconds(2).wall
        head = Manifest(LocalFileSystem(), str(below(root))).head()
        assert head is not None
        assert head.position(PETS).read_to == 1, "what was read of it is not forgotten"
        source.complete = frozenset(TOPICS)
        assert to_now(plain_loader(root, source)).closed == seconds(2).wall
        assert as_rows(Warehouse(root).rows("pets")) == {1: ("scan", START)}


def test_a_scan_that_succeeds_while_a_later_feed_writes_is_read_again_before_it_counts() -> None:
    source = scanned_once(Version("pets", 1, START.next(), "later feed"), seconds(2))
    source.complete, source.terms = frozenset(), dict.fromkeys(TOPICS, FeedTerm(START, START.prev(), None))

    def run(tasks: Sequence[LoadTask]) -> list[PartitionAnswer]:
        answers = run_here(tasks)
        source.complete = frozenset({"pets"})
        source.terms["pets"] = FeedTerm(START, START.prev(), START)
        return answers

    with directory() as root:
        loading = Loader(source, run, root, BUCKETS)
        report = loading.run_pass()
        assert (report.news, report.more) == (False, True)
        assert to_now(loading).closed == seconds(2).wall
        assert as_rows(Warehouse(root).rows("pets")) == {1: ("scan", START)}
