"""Each envelope has one module and one form, and the pages say what the forms do."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from stack.places import CHECKOUT
from tests.unit.changefeed.tables import FOO, INT, STRING, deletion_of, row, table, update
from tidegate.changefeed.definition.options import Envelope, FeedOptions, Format
from tidegate.changefeed.encoding import envelopes
from tidegate.changefeed.encoding.decoder import decoder_for
from tidegate.changefeed.encoding.encoder import compile_encoder
from tidegate.changefeed.encoding.envelopes.envelope_form import EnvelopeForm, Room
from tidegate.changefeed.encoding.envelopes.loading_faults import untold_changes
from tidegate.changefeed.encoding.envelopes.registry import (
    FORMS,
    form_of,
    needs_previous,
    shows_previous,
    tells_previous,
)
from tidegate.changefeed.encoding.record import RowRecord
from tidegate.errors import RowError, UnsupportedTable
from tidegate.hlc import Timestamp

AT: Final = Timestamp(1_743_792_394_409_866_000, 2)
WIDE: Final = table("wide", {"z": INT, "a": STRING, "n": INT}, key=("z", "a"))
OLD: Final = row(WIDE, z=1, a="x", n=1)
NEW: Final = row(WIDE, z=1, a="x", n=2)
CHANGES: Final = {"insert": OLD, "update": update(OLD, NEW), "deletion": deletion_of(NEW)}

_FOLDER: Final = Path(str(envelopes.__file__)).parent
#: Modules of the folder that are no envelope.
_OTHERS: Final = {"__init__", "envelope_form", "loading_faults", "registry"}
_PAGE: Final = CHECKOUT / "docs" / "envelopes.md"
_LINE: Final = re.compile(r"^\| `(\w+)`(.*?) \| (.*) \| (array|object) \| (.*) \|$", re.MULTILINE)
_OPTION: Final = re.compile(r"^\| `envelope` \| (.*?) \|", re.MULTILINE)

every_form: Final = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def test_every_envelope_has_one_form() -> None:
    assert sorted(form.name for form in FORMS) == sorted(each.value for each in Envelope)
    assert all(form_of(form.envelope) is form for form in FORMS)


def test_every_envelope_has_one_module_of_its_name() -> None:
    modules = {file.stem for file in _FOLDER.glob("*.py")} - _OTHERS
    assert modules == {each.value for each in Envelope}
    for name in modules:
        assert import_module(f"{envelopes.__name__}.{name}").FORM is form_of(Envelope(name))


def test_no_two_envelopes_have_one_name() -> None:
    names = [name for form in FORMS for name in (form.name, *form.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("chosen", "shows", "needs"),
    [
        (FeedOptions(), False, False),
        (FeedOptions(diff=True), True, True),
        (FeedOptions(envelope=Envelope.ROW, diff=True), False, False),
        (FeedOptions(envelope=Envelope.KEY_ONLY, diff=True), False, False),
        (FeedOptions(envelope=Envelope.ENRICHED), False, True),
        (FeedOptions(envelope=Envelope.ENRICHED, diff=True), True, True),
        (FeedOptions(envelope=Envelope.UPSERT), False, False),
        (FeedOptions(envelope=Envelope.DEBEZIUM), True, True),
    ],
)
def test_previous_values_are_needed_where_records_show_them_or_tell_inserts(
    chosen: FeedOptions, shows: bool, needs: bool
) -> None:
    assert (shows_previous(chosen), needs_previous(chosen)) == (shows, needs)


def test_the_deletion_of_a_row_that_was_not_there_looks_like_that_of_a_row_of_nulls_in_debezium_alone() -> (
    None
):
    for envelope in (Envelope.WRAPPED, Envelope.ENRICHED, Envelope.DEBEZIUM):
        options = FeedOptions(envelope=envelope, diff=envelope is not Envelope.DEBEZIUM, updated=True)
        encode, decoder = compile_encoder(WIDE, options).encode, decoder_for(options)
        deletion = CHANGES["deletion"]
        of_nothing = decoder.decode(*encode(deletion._replace(previous=()), AT))
        assert isinstance(of_nothing, RowRecord)
        assert (of_nothing.previous is None) is tells_previous(options)


@every_form
@pytest.mark.parametrize("change", CHANGES)
def test_what_a_form_says_of_its_records_is_what_it_writes(form: EnvelopeForm, change: str) -> None:
    options = FeedOptions(envelope=form.envelope)
    encoder = compile_encoder(WIDE, options)
    key, value = encoder.encode(CHANGES[change], AT)
    assert key.startswith(b"{" if form.keys.is_object else b"[")
    assert encoder.tombstones is decoder_for(options).tombstones is form.tombstones
    assert form.may_leave_out <= (value != b"")


@every_form
def test_a_form_has_avro_exactly_if_it_is_encoded(form: EnvelopeForm) -> None:
    options = FeedOptions(envelope=form.envelope, format=Format.AVRO)
    if Format.AVRO in form.formats:
        assert compile_encoder(FOO, options).schemas is not None
        return
    with pytest.raises(UnsupportedTable) as refused:
        compile_encoder(FOO, options)
    assert str(refused.value) == (
        f"table foo: envelope={form.name} has no Avro form; use envelope=wrapped, enriched, bare, key_only, "
        "upsert or debezium, or format=json"
    )


@every_form
@pytest.mark.parametrize("diff", [False, True])
def test_previous_rows_are_shown_and_needed_where_the_form_says_so(form: EnvelopeForm, diff: bool) -> None:
    options = FeedOptions(envelope=form.envelope, diff=diff)
    encode = compile_encoder(WIDE, options).encode
    _, value = encode(CHANGES["update"], AT)
    assert shows_previous(options) is (b'"before"' in (value or b""))
    if needs_previous(options):
        with pytest.raises(RowError, match="replaces"):
            encode(NEW._replace(previous=None), AT)
    else:
        assert encode(NEW._replace(previous=None), AT)[1] == value


@every_form
@pytest.mark.parametrize("change", CHANGES)
def test_what_the_loader_takes_tells_each_change_and_its_time(form: EnvelopeForm, change: str) -> None:
    options = FeedOptions(envelope=form.envelope, updated=form.room is not Room.FIXED)
    record = decoder_for(options).decode(*compile_encoder(WIDE, options).encode(CHANGES[change], AT))
    assert isinstance(record, RowRecord)
    told = (record.updated, record.deleted, set(record.key)) == (AT, change == "deletion", {1, "x"})
    if not form.loading_fault(options):
        assert told


@every_form
def test_a_form_that_is_not_loaded_leaves_something_out(form: EnvelopeForm) -> None:
    """The reason is true: of some change its record does not say that it is one, or its time."""
    options = FeedOptions(envelope=form.envelope, updated=form.room is not Room.FIXED)
    if not form.loading_fault(options):
        return
    records = [
        decoder_for(options).decode(*compile_encoder(WIDE, options).encode(change, AT))
        for change in CHANGES.values()
    ]
    assert any(
        not isinstance(each, RowRecord) or each.updated is None or each.deleted is None for each in records
    )


@every_form
def test_the_page_of_envelopes_says_what_the_form_does(form: EnvelopeForm) -> None:
    text = _PAGE.read_text(encoding="utf-8")
    page, _, anchor = form.page.partition("#")
    assert CHECKOUT / page == _PAGE
    assert f"\n## {anchor}\n" in text
    lines = {name: (names, purpose, key, gone) for name, names, purpose, key, gone in _LINE.findall(text)}
    names, purpose, key, gone = lines[form.name]
    assert all(f"`{alias}`" in names for alias in form.aliases if not alias.startswith("deprecated"))
    assert (key == "object") is form.keys.is_object
    assert ("tombstone" in gone) is form.tombstones
    assert ("(default)" in names) is (form.envelope is FeedOptions().envelope)
    assert purpose


def test_the_page_of_statements_lists_every_envelope() -> None:
    (listed,) = _OPTION.findall((CHECKOUT / "docs" / "statements.md").read_text(encoding="utf-8"))
    assert {each.value for each in Envelope} == set(re.findall(r"'(\w+)'", listed))


def test_the_page_of_the_warehouse_says_which_envelopes_are_loaded() -> None:
    text = (CHECKOUT / "docs" / "warehouse.md").read_text(encoding="utf-8")
    for record_format in (Format.JSON, Format.AVRO):
        said = re.findall(
            rf"^\| `format='{record_format.value}'`, envelopes?(.*?)with.*\| yes", text, re.MULTILINE
        )
        options = FeedOptions(format=record_format, updated=True)
        assert set(re.findall(r"`(\w+)`", "".join(said))) == {
            form.name for form in FORMS if not form.loading_fault(replace(options, envelope=form.envelope))
        }
    (refused,) = re.findall(r"^\| envelopes (.*?); CSV \| refused", text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", refused)) == {
        form.name for form in FORMS if form.loading_fault is untold_changes
    }
