"""The schemas that the reference engines registered, by ids that follow from the schemas' texts alone.

Every engine of the contract gives a schema the same id: the reference by this function, a worker by a
registry that computes ids the same way (``tests.registry_server``).
"""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import MalformedRecord
from tidegate.processor.reference import content_id

_TEXTS: Final[dict[int, str]] = {}


def register(schema: SubjectSchema) -> int:
    """The schema's id, remembered with its text."""
    number = content_id(schema)
    if _TEXTS.setdefault(number, schema.text) != schema.text:
        raise ValueError(f"two schemas have the id {number}: {schema.text} and {_TEXTS[number]}")
    return number


def schema_text(schema_id: int) -> str:
    """The text of a registered schema. Raises ``MalformedRecord`` for an id that no reference engine gave."""
    if schema_id not in _TEXTS:
        raise MalformedRecord(f"the reference engine registered no schema {schema_id}")
    return _TEXTS[schema_id]
