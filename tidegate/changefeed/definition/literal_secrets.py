"""Finds secrets in a feed's definition itself, where everybody who reads the jobs topic can read them."""

from __future__ import annotations

from typing import Final

from tidegate.changefeed.definition import extra_headers
from tidegate.changefeed.definition.feed import FeedDefinition
from tidegate.changefeed.definition.uri_parameters import SECRET_PARAMETERS
from tidegate.errors import StatementError

#: The errors that reading headers of a stored definition may raise.
_UNREADABLE: Final = (ValueError, TypeError, AttributeError)


def literal_secrets(definition: FeedDefinition) -> list[str]:
    """Return the places in the definition that hold secrets, such as ``confluent_schema_registry`` and
    ``header x-api-key``.
    """
    options, found = definition.options, list[str]()
    try:
        found += [f"header {name}" for name in extra_headers.literal_secrets(options.extra_headers)]
        found += [name for name, _ in definition.sink.parameters if name in SECRET_PARAMETERS]
        if options.registry is not None and options.registry.has_literal_secret:
            found.append("confluent_schema_registry")
    except (StatementError, *_UNREADABLE):
        pass  # what cannot be read is never shown
    return sorted(found)


def names_secrets(definition: FeedDefinition) -> bool:
    """Return whether the definition has references to secrets."""
    options = definition.options
    try:
        in_url = options.registry is not None and bool(options.registry.references)
        return in_url or bool(extra_headers.header_references(options.extra_headers))
    except (StatementError, *_UNREADABLE):
        return False


def require_references(definition: FeedDefinition) -> None:
    """Raise ``StatementError`` for a definition with a secret in it."""
    if found := literal_secrets(definition):
        raise StatementError(
            f"Nothing was created: the statement holds secrets ({', '.join(found)}), and whoever reads the "
            "jobs topic would read them. Name each instead: ?password=secret://NAME or client_key=secret://NAME"
            ' in confluent_schema_registry, {"x-api-key": "secret://NAME"} in extra_headers; NAME is a secret'
            " in the store of the workers (docs/security.md#secrets). To store them all the same, set "
            "TIDEGATE_LITERAL_SECRETS=true."
        )
