"""Turns a failed call to a schema registry into a sentence for the feed's owner."""

from __future__ import annotations

import base64
from typing import Any, Final, NamedTuple

import httpx2
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tidegate.changefeed.definition.registry_uri import RegistryUri
from tidegate.changefeed.definition.secret_reference import is_reference
from tidegate.changefeed.definition.uri_parameters import REDACTED
from tidegate.errors import RegistryAway, RegistryDenied, SchemaRejected, TidegateError
from tidegate.redaction import HeldSecrets

_LONGEST_WORDS: Final = 400  # characters; a proxy's error page is longer than anyone reads
_LOOKED_AT: Final = 10 * _LONGEST_WORDS  # characters of a text that are cleaned of secrets
#: Confluent's code for a subject in read-only mode. The schema is not at fault, and the mode may change.
_READ_ONLY: Final = 42205
#: The words that the client puts before a body that is not a registry's.
_CLIENTS_OWN_WORDS: Final = "Unknown Schema Registry Error: "


class Errand(NamedTuple):
    """The purpose of a call, for errors.

    ``what`` is a noun for the call, and ``meanwhile`` says what happens until it succeeds.
    """

    what: str
    meanwhile: str


class RegistryFaults:
    """The errors of one registry. They name its URL, and none of its secrets."""

    def __init__(self, uri: RegistryUri, shown: str = "") -> None:
        self._secrets = _secrets(uri)
        self._held = HeldSecrets(self._secrets)
        self._timeout_s = uri.timeout_s
        self.shown = shown or uri.shown

    def of(self, errand: Errand, error: Exception) -> TidegateError:
        """Return the error to raise in place of an error that the client raised."""
        match error:
            case SchemaRegistryError():
                return self._refusal(errand, error)
            case httpx2.TimeoutException():
                return self.late(errand)
            case httpx2.TransportError():
                return RegistryAway(
                    f"The schema registry at {self.shown} does not answer {errand.what}"
                    f" ({self._words(error)}): {errand.meanwhile}. Check that it runs, its URL, and its"
                    " certificates if it has any."
                )
            case _:
                return self._nonsense(errand, self._words(error))

    def late(self, errand: Errand) -> RegistryAway:
        """Return the error for a call that took longer than the registry's timeout."""
        return RegistryAway(
            f"The schema registry at {self.shown} did not answer {errand.what} within {self._timeout_s:g} s:"
            f" {errand.meanwhile}. Check that it runs and is not overloaded."
        )

    def _refusal(self, errand: Errand, error: Any) -> TidegateError:
        """Return the error for an answer whose status is no success."""
        status, code = error.http_status_code, error.error_code
        # the client gives the code -1 to a body that is not a registry's
        its_own = isinstance(code, int) and code > 0
        said = f"{status}: {self._words(_message(error))}"
        if status in (401, 403) or (its_own and code == _READ_ONLY):
            return RegistryDenied(
                f"The schema registry at {self.shown} does not permit {errand.what} ({said}):"
                f" {errand.meanwhile}. Check user, password and client_cert in confluent_schema_registry,"
                " and what the registry allows them."
            )
        if status in (409, 422) and its_own:
            return SchemaRejected(
                f"The schema registry at {self.shown} rejects {errand.what} ({said}). Nothing was written"
                " with that schema. Undo the change of the table, or permit it by the subject's"
                " compatibility, and create the feed anew."
            )
        if status >= 500 or status in (408, 429):
            return RegistryAway(
                f"The schema registry at {self.shown} cannot answer {errand.what} ({said}):"
                f" {errand.meanwhile}. Look into the registry's log."
            )
        return self._nonsense(errand, said)

    def _nonsense(self, errand: Errand, said: str) -> RegistryAway:
        return RegistryAway(
            f"What answers {errand.what} at {self.shown} is no schema registry ({said}): {errand.meanwhile}."
            " Check the URL, its path too: it is what stands before /subjects and /schemas."
        )

    def _words(self, said: object) -> str:
        """Return the other side's words as one line that is not too long.

        If the words repeat our secrets, the secrets are replaced.
        """
        text = str(said) or type(said).__name__
        head = self._head(text)
        cut = len(head) < len(text)
        for secret in self._secrets:
            head = head.replace(secret, REDACTED)
        line = " ".join("".join(char if char.isprintable() else " " for char in head).split())
        return f"{line[:_LONGEST_WORDS]}..." if cut or len(line) > _LONGEST_WORDS else line

    def _head(self, text: str) -> str:
        """Return the text, or the beginning of a long text. The beginning does not end within a secret."""
        if len(text) <= _LOOKED_AT:
            return text
        head = text[:_LOOKED_AT]
        parts = (secret[:length] for secret in self._secrets for length in range(1, len(secret)))
        return head[: _LOOKED_AT - max((len(part) for part in parts if head.endswith(part)), default=0)]


def _message(error: Any) -> str:
    return str(error.error_message).removeprefix(_CLIENTS_OWN_WORDS)


def _secrets(uri: RegistryUri) -> tuple[str, ...]:
    """Return the secrets, the longest first, since one may contain another.

    A user without a password is a secret, since registries accept tokens there.
    """
    word = uri.password or uri.user
    if is_reference(word):
        return ()
    login = base64.b64encode(f"{uri.user}:{uri.password}".encode()).decode() if word else ""
    named = (login, word, uri.client_key.decode("ascii", "replace"))
    return tuple(sorted(filter(None, named), key=len, reverse=True))
