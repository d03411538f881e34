"""All envelopes: the only list of them beside the enum of their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidegate.changefeed.definition.options import Envelope, FeedOptions
from tidegate.changefeed.encoding.envelopes import bare, debezium, enriched, key_only, row, upsert, wrapped
from tidegate.changefeed.encoding.envelopes.envelope_form import EnvelopeForm, Previous

#: The forms of all envelopes, in the order in which error texts name them.
FORMS: Final[tuple[EnvelopeForm, ...]] = (
    wrapped.FORM,
    enriched.FORM,
    bare.FORM,
    key_only.FORM,
    row.FORM,
    upsert.FORM,
    debezium.FORM,
)
_BY_ENVELOPE: Final[Mapping[Envelope, EnvelopeForm]] = {form.envelope: form for form in FORMS}


def form_of(envelope: Envelope) -> EnvelopeForm:
    """Return the ``FORM`` of an envelope, which describes it."""
    return _BY_ENVELOPE[envelope]


def shows_previous(options: FeedOptions) -> bool:
    """Return whether records hold the previous row."""
    match form_of(options.envelope).previous:
        case Previous.SHOWN:
            return True
        case Previous.SHOWN_BY_DIFF | Previous.OPERATION:
            return options.diff
        case Previous.UNUSED:
            return False


def tells_previous(options: FeedOptions) -> bool:
    """Return whether records say what the row before was, and also that there was none.

    In Debezium's envelope the deletion of a row that was not there has its key and NULLs as the row before. A
    row that was there may look the same.
    """
    return shows_previous(options) and options.envelope is not Envelope.DEBEZIUM


def needs_previous(options: FeedOptions) -> bool:
    """Return whether rows cannot be encoded without the value that they replace."""
    return shows_previous(options) or form_of(options.envelope).previous is Previous.OPERATION
