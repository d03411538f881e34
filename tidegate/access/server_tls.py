"""The TLS context of a server that tidegate runs."""

from __future__ import annotations

import ssl
from pathlib import Path

from tidegate.errors import SettingsError


def server_tls(certificate: Path | None, key: Path | None, names: tuple[str, str]) -> ssl.SSLContext | None:
    """Return the TLS context of a server that has these two files. Return ``None`` without files.

    ``names`` are the names of the two settings, for errors.

    Raises ``SettingsError`` for one file without the other, and for files that cannot be used.
    """
    if certificate is None and key is None:
        return None
    both = " and ".join(names)
    if certificate is None or key is None:
        raise SettingsError(f"{both} belong together: give both")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{both} cannot be used ({error}): give PEM files, certificate and key of one pair, and the key "
            "without a password"
        ) from None
    return context


def _no_password() -> str:
    return ""  # without a callback OpenSSL asks the terminal for the password of an encrypted key
