"""Avro feeds as their readers meet them: with the registry that the definition names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.destinations import DESTINATIONS
from tests.registry_server import Mood, RegistryServer
from tests.unit.client.history_log import catalog, log
from tests.unit.client.written_avro import LOGIN, Written, written
from tidegate.changefeed.definition.options import Envelope
from tidegate.changefeed.encoding.record import MarkerRecord, RowRecord
from tidegate.client.expectations import expected_versions
from tidegate.client.tail import line_of
from tidegate.errors import InputError, MalformedRecord, RegistryAway
from tidegate.verify import AuditOptions, ExpectedVersion, Verdict, audit


@pytest.fixture
def server() -> Iterator[RegistryServer]:
    with RegistryServer(login=LOGIN) as running:
        yield running


def owed(feed: Written) -> list[ExpectedVersion]:
    names = {target.table_id: target.topic for target in feed.topics.targets}
    ids = feed.topics.schema_ids(DESTINATIONS)
    return list(expected_versions(log().history, catalog(), feed.topics.options, names, ids))


AVRO_ENVELOPES = (Envelope.WRAPPED, Envelope.KEY_ONLY, Envelope.BARE, Envelope.UPSERT, Envelope.DEBEZIUM)


@pytest.mark.parametrize("envelope", AVRO_ENVELOPES)
def test_what_is_expected_is_what_was_written_byte_by_byte(
    envelope: Envelope, server: RegistryServer
) -> None:
    feed = written(server, envelope)
    expected = {
        (each.topic, each.key, each.value) for each in owed(feed) if each.timestamp > feed.topics.start
    }
    decoder = feed.topics.decoder(DESTINATIONS)
    rows = {
        (record.topic, record.key, record.value)
        for record in feed.records
        if isinstance(row := decoder.decode(record.key, record.value), RowRecord) and not row.tombstone
    }
    assert rows == expected


def test_an_avro_feed_passes_the_audit_against_its_history(server: RegistryServer) -> None:
    feed = written(server)
    counts = {target.topic: target.partitions for target in feed.topics.targets}
    options, decoder = AuditOptions(start=feed.topics.start), feed.topics.decoder(DESTINATIONS)
    report = audit(feed.records, counts, options, decoder, owed(feed))
    assert report.verdict is Verdict.PASSED, str(report)
    assert report.counts.expected == report.counts.rows > 0


def test_reading_registers_nothing_and_asks_for_each_schema_once(server: RegistryServer) -> None:
    feed = written(server)
    before, registered = len(server.calls), len(server.registrations)
    decoder = feed.topics.decoder(DESTINATIONS)
    for record in feed.records:
        decoder.decode(record.key, record.value)
    owed(feed)
    assert len(server.registrations) == registered
    schemas = sum(len(server.schemas(subject)) for subject in set(server.registrations))
    assert len(server.calls) - before <= 2 * schemas  # once by id, once for its id


def test_lines_of_avro_records_are_readable(server: RegistryServer) -> None:
    feed = written(server)
    decoder = feed.topics.decoder(DESTINATIONS)
    for record in feed.records:
        decoded, line = decoder.decode(record.key, record.value), line_of(record, decoder)
        place = f"{record.topic}[{record.partition}]@{record.offset} "
        if isinstance(decoded, MarkerRecord):
            assert line == f"{place}resolved {decoded.resolved}"
        else:
            assert line.startswith(f"{place}[")
            assert ' -> {"after": ' in line
            assert f'"updated": "{decoded.updated}"' in line
            assert line.isprintable()


@pytest.mark.parametrize(("envelope", "end"), [(Envelope.KEY_ONLY, " -> "), (Envelope.DEBEZIUM, " -> null")])
def test_records_without_a_value_have_a_line_too(
    envelope: Envelope, end: str, server: RegistryServer
) -> None:
    feed = written(server, envelope)
    record = next(each for each in feed.records if each.key is not None and not each.value)
    assert line_of(record, feed.topics.decoder(DESTINATIONS)).endswith(end)


def test_a_record_of_a_schema_that_the_registry_lost_is_shown_as_its_bytes(server: RegistryServer) -> None:
    feed = written(server)
    record = next(each for each in feed.records if each.key is not None)
    server._texts.clear()
    decoder = feed.topics.decoder(DESTINATIONS)
    with pytest.raises(MalformedRecord, match="has no schema"):
        decoder.decode(record.key, record.value)
    assert "unreadable: key b'\\x00" in line_of(record, decoder)


def test_a_registry_that_is_away_is_told_and_no_record_is_called_wrong(server: RegistryServer) -> None:
    feed = written(server)
    server.mood = Mood.FAILS
    with pytest.raises(RegistryAway) as caught:
        line_of(feed.records[0], feed.topics.decoder(DESTINATIONS))
    assert "hush" not in str(caught.value)
    with pytest.raises(RegistryAway):
        owed(feed)


def test_without_a_registry_no_framed_record_can_be_expected(server: RegistryServer) -> None:
    feed = written(server)
    names = {target.table_id: target.topic for target in feed.topics.targets}
    with pytest.raises(InputError, match="no registry is known to ask"):
        list(expected_versions(log().history, catalog(), feed.topics.options, names))


def test_what_is_known_of_a_feed_shows_no_password(server: RegistryServer) -> None:
    topics = written(server).topics
    assert "hush" not in f"{topics!r} {topics.decoder!r} {topics.schema_ids!r}"
