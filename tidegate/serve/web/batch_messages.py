"""Makes the messages to a client of HTTP, as JSON. NDJSON, server-sent events and WebSocket have the same.

    {"columns": ["mz_timestamp", ...], "types": ["numeric", ...], "mode": "upsert", "key": ["id"],
     "resumed": false}
    {"rows": [[...], ...]}
    {"rows": [[...], ...], "frontier": "7.0000000001", "snapshot": true, "token": "eyJ..."}
    {"end": true}
    {"error": {"code": "history_lost", "sqlstate": "22000", "message": "..."}}
    {"error": {"code": "fell_behind", "sqlstate": "53200", "message": "...", "token": "eyJ..."}}

The first message has the columns. A batch comes in one or more messages, and the last of them has its
frontier. A client has to hold the rows until that message comes. The same is true for a snapshot in chunks.
If a token is ``null``, nothing can be resumed from it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from tidegate.changefeed.text.surrogates import LONE_SURROGATE
from tidegate.errors import TidegateError
from tidegate.redaction import redacted
from tidegate.serve.encoded_batches import EncodedBatches
from tidegate.serve.json_values import rows_text
from tidegate.serve.stream_source import StreamColumns
from tidegate.subscribe.statement.statement import OutputMode, SubscribeStatement
from tidegate.subscribe.subscription import SubscriptionBatch
from tidegate.subscribe.updates.update import RowValues

_LOG: Final = logging.getLogger(__name__)
_FORM: Final = "json"
#: The number of columns before those of KEY: the timestamp and the state. PROGRESS adds mz_progressed.
_BEFORE_KEY: Final = 2
_MOST_CHARACTERS: Final = 4_000

END: Final = b'{"end": true}'


def header_message(columns: StreamColumns, statement: SubscribeStatement, *, resumed: bool) -> bytes:
    """Make the first message; ``key`` is empty if rows have no key.

    ``mode`` says what the columns mean. Their names do not say it, since a table may have any names.
    """
    at = _BEFORE_KEY + statement.progress
    keyed = statement.output.mode in (OutputMode.UPSERT, OutputMode.DEBEZIUM)
    key = columns.header[at : at + len(statement.output.key)] if keyed else ()
    return _json(
        {
            "columns": list(columns.header),
            "types": [each.value for each in columns.types],
            "mode": statement.output.mode.value,
            "key": list(key),
            "resumed": resumed,
        }
    )


def batch_messages(batch: SubscriptionBatch, encoded: EncodedBatches) -> Iterator[tuple[bytes, str]]:
    """Yield the messages of a batch, each with the token that holds after it.

    The token is empty for all messages but the last one, and for the last one if the batch has no token.
    """
    start = 0
    while True:
        count, message = encoded.piece(batch, _FORM, start, partial(_piece, batch, start))
        closes = start + count == len(batch.rows) and not batch.is_partial
        start += count
        yield message, str(batch.token) if closes and batch.token is not None else ""
        if start == len(batch.rows):
            return


def _piece(batch: SubscriptionBatch, start: int, rows: Sequence[RowValues]) -> bytes:
    text = f'{{"rows": {rows_text(rows)}'
    if start + len(rows) == len(batch.rows) and not batch.is_partial:
        members = {
            "frontier": batch.frontier.decimal(),
            "snapshot": batch.is_snapshot,
            "token": None if batch.token is None else str(batch.token),
        }
        text += f", {json.dumps(members)[1:-1]}"
    return _utf8(text + "}")


def error_message(error: BaseException) -> dict[str, Any]:
    """Describe an error for programs and for people.

    An exception of any other kind than ``TidegateError`` is logged, and the client does not get its text.
    """
    if not isinstance(error, TidegateError):
        _LOG.error("A client's subscription met an exception that nobody foresaw", exc_info=error)
        text = f"The server met an exception that nobody foresaw ({type(error).__name__}): see its log"
        return {"error": {"code": "internal_error", "sqlstate": "XX000", "message": text}}
    found = {
        "code": getattr(error, "code", "error"),
        "sqlstate": getattr(error, "sqlstate", "XX000"),
        "message": redacted(str(error))[:_MOST_CHARACTERS],
    }
    if getattr(error, "hint", ""):
        found["hint"] = redacted(str(getattr(error, "hint", "")))
    for name in ("token", "topic"):
        if getattr(error, name, ""):
            found[name] = getattr(error, name)
    if "topic" in found:
        found |= {"partition": getattr(error, "partition", -1), "offset": getattr(error, "offset", -1)}
    if getattr(error, "position", -1) >= 0:
        found["position"] = getattr(error, "position", -1)
    return {"error": found}


def error_bytes(error: BaseException) -> bytes:
    """Encode what `error_message` returns."""
    return _json(error_message(error))


def _json(message: dict[str, Any]) -> bytes:
    return _utf8(json.dumps(message, ensure_ascii=False, allow_nan=False))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can have it only escaped
        return LONE_SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text).encode()
