"""Ask a server of ours over HTTP whether it is there."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request

_ANSWER_TIMEOUT_S = 2.0

# A proxy of the environment must not be asked about our own machine.
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def get_succeeds(url: str) -> bool:
    """Whether a GET of ``url`` is answered with a status of success within two seconds."""
    try:
        with _open(url, timeout=_ANSWER_TIMEOUT_S):
            return True
    except (OSError, http.client.HTTPException, urllib.error.URLError):
        return False
