"""The TLS of the worker's own HTTP server."""

from __future__ import annotations

import ssl
from pathlib import Path

from tidegate.errors import SettingsError


def server_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """The TLS context to serve with; ``None`` without a certificate.

    Raises ``SettingsError`` for files that cannot be used.
    """
    if certificate is None or key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"metrics_tls_certificate and metrics_tls_key cannot be used ({error}): give PEM files, "
            "certificate and key of one pair, and the key without a password"
        ) from None
    return context


def _no_password() -> str:
    return ""  # without a callback OpenSSL asks the terminal for the password of an encrypted key
