"""A feed as the page of feeds shows it, from what workers say of it."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.hand_log import at
from tests.unit.client.why.hand_evidence import LOW, SPAN, STUCK, evidence, held, live, view
from tidegate.changefeed.definition.feed import FeedState
from tidegate.hlc import ResolvedTimestamp
from tidegate.serve.feeds.shown_feed import explained_feed, listed_feed, most_behind_first


def test_a_feed_has_its_lag_what_why_says_and_its_slowest_range_first() -> None:
    found = explained_feed(evidence(held(), live(8, LOW, resolved=at(40)), live(9, LOW, resolved=at(30))), 17)
    shown = json.loads(json.dumps(found.to_json()))
    assert (shown["feed"], shown["status"], shown["lag_ms"]) == ("bank", "running", 80_000)
    assert shown["high_water"] == STUCK.decimal()
    assert shown["why"]["cause"] == "transaction"
    assert "has been open for" in shown["why"]["sentence"]
    assert [each["range_id"] for each in shown["slowest_ranges"]] == [7, 9, 8]
    first = shown["slowest_ranges"][0]
    assert (first["resolved_lag_ms"], first["closed_lag_ms"], first["open_transactions"]) == (
        80_000,
        3_000,
        4,
    )
    assert found.records == 17


def test_at_most_five_ranges_are_shown() -> None:
    found = explained_feed(evidence(*(live(number, SPAN) for number in range(3, 30))))
    assert [each.range_id for each in found.ranges] == [3, 4, 5, 6, 7]


def test_a_feed_that_failed_says_why_without_its_workers() -> None:
    failed = view(FeedState.FAILED, "the topic accounts was deleted")
    shown = explained_feed(evidence(feed=failed, no_frontier=True)).to_json()
    assert shown["status"] == "failed"
    assert "the topic accounts was deleted" in shown["why"]["sentence"]
    assert shown["slowest_ranges"] == []


def test_a_feed_that_was_not_asked_for_is_listed_from_the_jobs_topic() -> None:
    shown = listed_feed("bank", view(), at(100).wall_ms, "not asked for").to_json()
    assert (shown["lag_ms"], shown["why"], shown["error"]) == (80_000, None, "not asked for")


def test_no_error_of_a_feed_has_a_secret() -> None:
    shown = listed_feed("bank", view(), at(100).wall_ms, "https://me:word@registry answered 500").to_json()
    assert shown["error"] == "https://me:redacted@registry answered 500"


def test_running_feeds_that_are_most_behind_are_asked_for_first() -> None:
    fresh = view()
    assert fresh.progress is not None
    ahead = replace(fresh, progress=replace(fresh.progress, high_water=ResolvedTimestamp(at(90))))
    feeds = [("failed", view(FeedState.FAILED)), ("ahead", ahead), ("behind", view()), ("a", ahead)]
    assert [name for name, _ in most_behind_first(feeds)] == ["behind", "a", "ahead", "failed"]
