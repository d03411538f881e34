"""Asks a worker for its status over HTTP."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from tidegate.access.http_access import TOKEN, usable_token
from tidegate.changefeed.definition.stored_fields import items, whole
from tidegate.errors import InputError, RetryError, brief
from tidegate.processor.status import RangesIn
from tidegate.spans import Span

#: The most bytes of a worker's answer: 500 bytes for each of 500,000 ranges.
_MOST_BYTES: Final = 256 << 20
_ANSWER_S: Final = 60.0
_CHUNK_BYTES: Final = 64 << 10


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: a worker sends none, and the token is for the worker alone."""

    def redirect_request(self, *_: Any) -> None:
        """See ``HTTPRedirectHandler``."""


#: No proxy either: it would be told the token, and could answer in the worker's place.
_open = build_opener(ProxyHandler({}), _NoRedirects).open


def worker_url(data_dir: Path, app_id: str) -> str:
    """Return the address at which the worker with this data directory serves its status.

    Raises ``InputError`` when no worker runs there.
    """
    file = data_dir / app_id / "worker.json"
    try:
        return str(json.loads(file.read_text())["url"])
    except FileNotFoundError:
        raise InputError(
            f"No worker runs with the data directory {data_dir} and the application id {app_id}; name the"
            " worker by --url."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError, OSError) as error:
        raise InputError(f"{file} cannot be read ({brief(str(error))}); name the worker by --url.") from None


def worker_urls(data_dirs: Iterable[Path], app_id: str) -> tuple[list[str], list[str]]:
    """Return the addresses of the workers with these data directories, and a sentence for each directory
    where no worker runs.
    """
    found, silent = [], []
    for data_dir in data_dirs:
        try:
            found.append(worker_url(data_dir, app_id))
        except InputError as error:
            silent.append(str(error))
    return found, silent


def fetch_status(url: str, timeout_s: float) -> dict[str, Any]:
    """Return the worker's ``/status``.

    Raises ``RetryError`` if there is no answer, and ``InputError`` if the answer is not a worker's, or the
    worker refuses to give it.
    """
    return _fetch(url, "/status", timeout_s)


def fetch_ranges(url: str, span: Span, timeout_s: float) -> dict[int, RangesIn]:
    """Return the worker's ranges that have keys of ``span``, by log partition.

    Raises as ``fetch_status`` does.
    """
    return read_ranges(_fetch(url, f"/ranges?start={span.start.hex()}&end={span.end.hex()}", timeout_s), url)


def read_ranges(found: dict[str, Any], url: str) -> dict[int, RangesIn]:
    """Read the answer of the worker at ``url`` to ``/ranges``, by log partition.

    Raises ``InputError`` for the answer of another version.
    """
    try:
        return {whole(row, "partition"): RangesIn.from_json(row) for row in items(found, "partitions")}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"What the worker at {url} says of its ranges cannot be read ({brief(repr(error))}): it is of "
            "another version than this command. Use the command of its version."
        ) from None


def _fetch(url: str, path: str, timeout_s: float) -> dict[str, Any]:
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise InputError(f"{url} is not the address of a worker: {error}.") from None
    if scheme not in ("http", "https"):
        raise InputError(f"{url} is not the address of a worker; it begins with http:// or https://.")
    where = f"{url.rstrip('/')}{path}"
    try:
        with _open(Request(where, headers=_token()), timeout=timeout_s) as answer:  # noqa: S310 - as checked
            status = json.loads(_bounded(answer, url, time.monotonic() + _ANSWER_S))
    except HTTPError as error:
        raise _refused(url, error) from None
    except (URLError, TimeoutError, HTTPException, ConnectionError) as error:
        raise RetryError(f"The worker at {url} does not answer ({error}); check that it runs.") from None
    except (ValueError, RecursionError):
        raise InputError(f"What answers at {where} is not a worker: it did not send JSON.") from None
    if not isinstance(status, dict):
        raise InputError(f"What answers at {where} is not a worker: it did not send an object.")
    return status


def _bounded(answer: HTTPResponse, url: str, until_s: float) -> bytes:
    """Return the answer's body.

    Raises ``InputError`` for a body that is too long, or not complete in time.
    """
    body = bytearray()
    while chunk := answer.read1(_CHUNK_BYTES):
        body += chunk
        if len(body) > _MOST_BYTES or time.monotonic() > until_s:
            raise InputError(
                f"What answers at {url} is not a worker: it sent {len(body)} bytes, and had not ended "
                f"(at most {_MOST_BYTES} bytes in {_ANSWER_S:g} s)."
            )
    return bytes(body)


def _token() -> dict[str, str]:
    token = usable_token(os.environ.get(TOKEN), TOKEN)
    return {"Authorization": f"Bearer {token}"} if token else {}


def _refused(url: str, error: HTTPError) -> RetryError | InputError:
    match error.code:
        case 401:
            return InputError(
                f"The worker at {url} asks for a token: set TIDEGATE_METRICS_TOKEN to the worker's."
            )
        case 403:
            return InputError(
                f"The worker at {url} is not served under this name; ask by its address, or add the name to "
                "the worker's TIDEGATE_METRICS_ALLOWED_HOSTS."
            )
        case _:
            return RetryError(f"The worker at {url} does not answer ({error}); check that it runs.")
