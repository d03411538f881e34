"""Asks registries for schema ids, in a Python worker of Spark. All tasks of the worker share one client."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from tidegate.access.destinations import Destinations
from tidegate.changefeed.encoding.confluent import SubjectSchema
from tidegate.errors import FeedError, RegistryNotAllowed, RetryError, StatementError

if TYPE_CHECKING:
    from tidegate.registry.known_registries import SchemaRegistries

_REGISTRY_S: Final = 30.0
_REGISTRY_AGAIN_S: Final = 3.0
#: A task does not know which feeds are live, and its process has tasks of all of them one after the other.
_MOST_REGISTRIES: Final = 64

_log = logging.getLogger("tidegate.spark")


@cache
def _registries(allowed: Destinations) -> SchemaRegistries:
    # Imported here, since its HTTP client would be half of all that a Python worker imports, and few feeds
    # have a registry.
    from tidegate.registry.known_registries import SchemaRegistries

    return SchemaRegistries(allowed, most=_MOST_REGISTRIES)


def schema_ids(
    allowed: Destinations, url: str, schemas: Iterable[SubjectSchema]
) -> Mapping[SubjectSchema, int]:
    """Return the ids of the schemas, from a registry that is among the ``allowed``.

    A registry that does not answer is asked again for half a minute, since another run of the task would
    write the rows before these a second time. Raises ``FeedError`` for schemas and registries that can never
    be used, and ``RetryError`` for a registry that has not answered, or is not allowed.
    """
    given_up_at = time.monotonic() + _REGISTRY_S
    while True:
        try:
            registry = _registries(allowed).of(url)
            return {schema: registry.id_of(schema) for schema in schemas}
        except StatementError as error:
            raise FeedError(str(error)) from None
        except RegistryNotAllowed:
            raise  # only a new start of the query reads other entries
        except RetryError as away:
            if time.monotonic() > given_up_at:
                raise
            _log.warning("%s", away)
            time.sleep(_REGISTRY_AGAIN_S)
