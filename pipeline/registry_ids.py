"""The ids of schemas, as a Python worker asks for them: one client for all of its tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from tidegate.changefeed.confluent import Schema
from tidegate.errors import FeedError, RetryError, StatementError

if TYPE_CHECKING:
    from schemas.registries import SchemaRegistries

_REGISTRY_S: Final = 30.0
_REGISTRY_AGAIN_S: Final = 3.0

_log = logging.getLogger("tidegate.spark")


@cache
def _registries() -> SchemaRegistries:
    # Its HTTP client is half of what a Python worker would import, and few feeds have a registry.
    from schemas.registries import SchemaRegistries

    return SchemaRegistries()


def schema_ids(url: str, schemas: Iterable[Schema]) -> Mapping[Schema, int]:
    """The ids, asked for again for a while: rows before them would be written twice by another run.

    Raises ``FeedError`` for schemas and registries that can never be used, ``RetryError``.
    """
    given_up_at = time.monotonic() + _REGISTRY_S
    while True:
        try:
            registry = _registries().of(url)
            return {schema: registry.id_of(schema) for schema in schemas}
        except StatementError as error:
            raise FeedError(str(error)) from None
        except RetryError as away:
            if time.monotonic() > given_up_at:
                raise
            _log.warning("%s", away)
            time.sleep(_REGISTRY_AGAIN_S)
