"""Tests which subjects of a schema registry a feed may have."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.feeds import activation
from tests.hand_log import HandTable
from tidegate.access.destinations import NOWHERE_ELSE, Destinations, RegistryEntry
from tidegate.access.output_namespace import OutputNamespace
from tidegate.changefeed.definition.feed import (
    LIVE,
    Engine,
    FeedDefinition,
    FeedEpoch,
    FeedState,
    TableName,
)
from tidegate.changefeed.definition.options import Envelope, ExistingTopics, FeedOptions, Format
from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.changefeed.lifecycle.control import Activate
from tidegate.changefeed.lifecycle.job_records import DefinitionRecord, DropRecord, StateRecord
from tidegate.changefeed.lifecycle.jobs import JobsView
from tidegate.client.subject_ownership import check_subjects, new_subjects, subjects
from tidegate.client.topic_ownership import check_topics, feed_fault, wanted_topics
from tidegate.errors import FeedError

_REGISTRY: Final = "http://registry:8081"
_OWNED: Final = "feed owner registers schemas of its topic orders under orders-key and orders-value"


def feed(feed_id: str, table: str, registry: str = _REGISTRY, **options: object) -> Activate:
    chosen = FeedOptions(format=Format.AVRO, confluent_schema_registry=registry, **options)  # type: ignore[arg-type]
    return activation([HandTable.of(104, table).descriptor], chosen, feed_id=feed_id)


def defined(feed_id: str, table: str, registry: str = _REGISTRY, **options: object) -> FeedDefinition:
    return feed(feed_id, table, registry, **options).definition


def running(*feeds: Activate, state: FeedState = FeedState.RUNNING) -> JobsView:
    view = JobsView()
    for each in feeds:
        stored = StateRecord(each.feed_id, each.definition.epoch, state, each.start, each.targets)
        for record in (DefinitionRecord(each.definition), stored):
            view.apply(record.key, record.to_bytes())
    return view


@pytest.mark.parametrize(("prefix", "table"), [("ord", "ers"), ("o", "rders")])
def test_a_subject_of_a_live_feed_is_refused_by_a_sentence_that_names_the_feed(
    prefix: str, table: str
) -> None:
    view, heir = running(feed("owner", "orders")), defined("heir", table, avro_schema_prefix=prefix)
    sentence = f"{_OWNED} already .*; choose another avro_schema_prefix, or drop that feed"
    with pytest.raises(FeedError, match=sentence):
        check_subjects(heir, view)
    with pytest.raises(FeedError, match=sentence):
        check_topics(heir, wanted_topics(heir), view, set())
    assert "feed owner registers schemas" in feed_fault(heir, lambda: "", view, set())


def test_the_subject_is_refused_on_whatever_cluster_the_other_feed_is() -> None:
    view, heir = running(feed("owner", "orders")), defined("heir", "ers", avro_schema_prefix="ord")
    with pytest.raises(FeedError, match=_OWNED):
        check_topics(heir, wanted_topics(heir), view, set(), lambda _: False)


def test_a_feed_on_a_topic_whose_subject_another_feed_has_is_told_the_option_that_it_lacks() -> None:
    view = running(feed("owner", "ers", avro_schema_prefix="ord"))
    sentence = "feed owner registers schemas of its topic ers under orders-key .*another topic_prefix"
    with pytest.raises(FeedError, match=sentence):
        check_subjects(defined("heir", "orders"), view)


@pytest.mark.parametrize("option", ["topic_prefix", "avro_schema_prefix"])
def test_subjects_of_other_names_are_free(option: str) -> None:
    check_subjects(defined("heir", "orders", **{option: "mine_"}), running(feed("owner", "orders")))


def test_feeds_of_json_have_no_subjects() -> None:
    json = activation([HandTable.of(104, "orders").descriptor], FeedOptions(), feed_id="owner")
    check_subjects(defined("heir", "ers", avro_schema_prefix="ord"), running(json))
    check_subjects(json.definition, running(feed("owner2", "orders")))


@pytest.mark.parametrize("state", [FeedState.FAILED, FeedState.SUCCEEDED, FeedState.DROPPED])
def test_a_feed_that_has_ended_frees_its_subjects(state: FeedState) -> None:
    check_subjects(
        defined("heir", "ers", avro_schema_prefix="ord"), running(feed("owner", "orders"), state=state)
    )


def test_a_feed_that_is_created_again_on_its_topic_has_its_subjects() -> None:
    view, owner = running(feed("owner", "orders")), feed("owner", "orders")
    drop = DropRecord(owner.feed_id, 0)
    view.apply(drop.key, drop.to_bytes())
    check_subjects(defined("heir", "orders"), view)
    check_subjects(replace(owner.definition, tables=(TableName("orders"), TableName("more"))), view)


def test_of_two_feeds_that_wait_for_their_start_the_earlier_has_the_subject() -> None:
    earlier, later = defined("1", "ers", avro_schema_prefix="ord"), defined("2", "orders")
    view = JobsView()
    for record in map(DefinitionRecord, (earlier, later)):
        view.apply(record.key, record.to_bytes())
    check_subjects(earlier, view)
    with pytest.raises(FeedError, match="feed 1 registers schemas of its topic ers"):
        check_subjects(later, view)


def test_feeds_that_write_one_table_to_two_clusters_share_its_subjects() -> None:
    view = running(feed("owner", "orders"))
    check_subjects(defined("heir", "orders"), view)
    with pytest.raises(FeedError, match=_OWNED):
        check_subjects(defined("heir", "orders", envelope=Envelope.DEBEZIUM), view)
    other_table = replace(defined("heir", "orders"), tables=(TableName("orders", database="other"),))
    with pytest.raises(FeedError, match=_OWNED):
        check_subjects(other_table, view)


@pytest.mark.parametrize(
    ("url", "is_one"),
    [
        ("http://me:pw@REGISTRY:8081/?timeout=3s", True),
        ("http://alias:8081/registry", True),
        ("http://registry:8082", False),
        ("http://registry:8081/other", False),
    ],
)
def test_the_same_subject_in_another_registry_is_another(url: str, is_one: bool) -> None:
    """A login and parameters make no other registry, nor does a second URL of the operator's entry."""
    entries = Destinations(registries=(("shop", RegistryEntry((_REGISTRY, "http://alias:8081/registry"))),))
    view, heir = running(feed("owner", "orders")), defined("heir", "ers", url, avro_schema_prefix="ord")
    if not is_one:
        check_subjects(heir, view, destinations=entries)
        return
    with pytest.raises(FeedError, match=_OWNED):
        check_subjects(heir, view, destinations=entries)


def test_a_feed_whose_registry_cannot_be_read_has_no_subjects() -> None:
    check_subjects(defined("heir", "orders"), running(feed("owner", "orders", "nonsense://x")))


@pytest.mark.parametrize(
    ("prefix", "table", "allowed"),
    [
        ("", "cdc.orders", True),
        ("cdc.", "cdc.orders", True),
        ("acme", "cdc.orders", False),
        ("shop.order", "cdc.s", False),
    ],
)
def test_a_subject_that_is_not_named_as_the_topic_is_held_to_the_operators_patterns(
    prefix: str,
    table: str,
    allowed: bool,
) -> None:
    namespace = OutputNamespace.of("cdc.*")
    heir = defined("heir", table, avro_schema_prefix=prefix)
    if allowed:
        check_topics(heir, wanted_topics(heir), JobsView(), set(), namespace=namespace)
        return
    names = f"{prefix}{table}-key and {prefix}{table}-value"
    sentence = rf"no feed may register schemas under {names}: the operator allows only subjects of topics"
    with pytest.raises(FeedError, match=f"{sentence} .*; choose another avro_schema_prefix"):
        check_topics(heir, wanted_topics(heir), JobsView(), set(), namespace=namespace)


def _asked(heir: FeedDefinition, view: JobsView, entries: Destinations = NOWHERE_ELSE) -> tuple[str, ...]:
    return new_subjects(heir, view, entries).names


def test_a_subject_that_is_not_named_as_the_topic_has_to_be_new() -> None:
    heir = defined("heir", "ers", avro_schema_prefix="ord")
    found = new_subjects(heir, JobsView(), NOWHERE_ELSE)
    assert found.names == ("orders-key", "orders-value")
    (own,) = found.own
    assert own.subject == "orders-value"
    assert '"name":"resolved"' in own.text, "markers are registered before a feed begins"


@pytest.mark.parametrize("options", [{}, {"topic_prefix": "cdc."}])
def test_one_that_is_named_as_the_topic_need_not_be(options: dict[str, str]) -> None:
    assert _asked(defined("heir", "orders", **options), JobsView()) == ()


def test_a_feed_that_may_use_what_exists_asks_nothing() -> None:
    use = ExistingTopics.USE
    assert _asked(defined("heir", "ers", avro_schema_prefix="ord", existing_topics=use), JobsView()) == ()


def test_json_asks_nothing() -> None:
    assert _asked(activation([HandTable.of(104, "a").descriptor]).definition, JobsView()) == ()


@pytest.mark.parametrize("state", FeedState)
def test_a_subject_of_a_feed_that_has_begun_is_the_applications(state: FeedState) -> None:
    """So a feed that is created again is not blocked, nor one on a topic of a dropped feed."""
    view = running(feed("owner", "ers", avro_schema_prefix="ord"), state=state)
    assert _asked(defined("heir", "ers", avro_schema_prefix="ord"), view) == ()
    assert _asked(defined("heir", "rs", avro_schema_prefix="orde"), view) == ()
    other = defined("heir", "ers", "http://other:8081", avro_schema_prefix="ord")
    assert _asked(other, view) == ("orders-key", "orders-value")


def test_a_feed_that_was_refused_or_used_what_existed_makes_no_subject_the_applications() -> None:
    refused = JobsView()
    definition = DefinitionRecord(defined("owner", "ers", avro_schema_prefix="ord"))
    failed = StateRecord(definition.definition.id, definition.definition.epoch, FeedState.FAILED, error="no")
    for record in (definition, failed):
        refused.apply(record.key, record.to_bytes())
    used = feed("owner", "ers", avro_schema_prefix="ord", existing_topics=ExistingTopics.USE)
    for view in (refused, running(used, state=FeedState.DROPPED)):
        assert len(_asked(defined("heir", "ers", avro_schema_prefix="ord"), view)) == 2


def test_a_feed_that_goes_on_asks_nothing() -> None:
    begun = feed("heir", "ers", avro_schema_prefix="ord")
    moved = replace(begun.definition, epoch=FeedEpoch(2), engine=Engine.SPARK)
    view = running(begun)
    record = DefinitionRecord(moved)
    view.apply(record.key, record.to_bytes())
    assert _asked(moved, view) == ()


_ENTRIES: Final = Destinations(
    registries=(("shop", RegistryEntry((_REGISTRY, "http://alias:8081/registry"))),)
)
_URLS: Final = (_REGISTRY, "http://alias:8081/registry", "http://registry:8082", "nonsense://x")


def _any_feed(feed_id: str, prefix: int, registry: str, envelope: Envelope) -> Activate:
    """A feed whose subject is ``orders``, and whose topic may be a part of that."""
    name = "orders"
    return feed(feed_id, name[prefix:], registry, avro_schema_prefix=name[:prefix], envelope=envelope)


def _owner_of_all(heir: FeedDefinition, view: JobsView) -> str | None:
    """The owner of the subject as a look at all feeds finds it."""
    (ours,), registry = subjects(heir), heir.options.registry
    assert registry is not None
    for each, other in view.feeds():
        waits = other.status is FeedState.PENDING and each < heir.id
        if each == heir.id or other.definition is None or not (other.status in LIVE or waits):
            continue
        url = other.definition.options.confluent_schema_registry
        theirs = None if url == _URLS[-1] else parse_registry_uri(url)
        is_one = theirs is not None and not set(_ENTRIES.names_of_registry(theirs)).isdisjoint(
            _ENTRIES.names_of_registry(registry)
        )
        if is_one and list(subjects(other.definition)) != [ours]:
            return each
    return None


@examples(100)
@given(
    st.lists(
        st.tuples(
            st.builds(
                _any_feed,
                st.sampled_from("12345"),
                st.integers(0, 2),
                st.sampled_from(_URLS),
                st.sampled_from([Envelope.WRAPPED, Envelope.ROW]),
            ),
            st.sampled_from([None, FeedState.PENDING, FeedState.RUNNING, FeedState.FAILED]),
        ),
        max_size=6,
    ),
    st.sampled_from(_URLS[:-1]),
)
def test_the_owner_of_a_subject_is_the_one_that_a_look_at_all_feeds_finds(
    feeds: list[tuple[Activate, FeedState | None]], registry: str
) -> None:
    view, heir = JobsView(), _any_feed("3", 0, registry, Envelope.WRAPPED).definition
    for each, state in feeds:
        stored = StateRecord(each.feed_id, each.definition.epoch, state or FeedState.PENDING)
        for record in (DefinitionRecord(each.definition), stored)[: 1 if state is None else 2]:
            view.apply(record.key, record.to_bytes())
        owner = _owner_of_all(heir, view)
        if owner is None:
            check_subjects(heir, view, destinations=_ENTRIES)
        else:
            with pytest.raises(FeedError, match=f"^feed {owner} registers schemas"):
                check_subjects(heir, view, destinations=_ENTRIES)
