"""The server's side of SCRAM-SHA-256 (RFC 5802 and 7677): a login without a password on the wire or on disk.

    client                                   server
    n,,n=,r=<client nonce>             ->
                                       <-    r=<both nonces>,s=<salt>,i=<iterations>
    c=biws,r=<both nonces>,p=<proof>   ->
                                       <-    v=<signature>

A user that does not exist gets a salt too. It is always the same one, with the iterations of some user that
exists. Such a user takes the same steps as a user with a wrong password. Channel binding is not offered.
libpq sends an empty user name here, since the startup message has the name.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass, field
from typing import Final

from tidegate.errors import RequestRefused, SettingsError

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4096
_MOST_ITERATIONS: Final = 10_000_000
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 18
_HASH_BYTES: Final = 32
_MOST_BYTES: Final = 1_024
_HASH: Final = "sha256"
_FIRST: Final = re.compile(
    rb"(?P<gs2>(?P<binding>[ny]|p=[^,]*),[^,]*,)(?P<bare>n=[^,]*,r=(?P<nonce>[!-+\--~]+)(?:,.*)?)"
)
_FINAL: Final = re.compile(
    rb"(?P<unproved>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[!-+\--~]+)(?:,[^,]*)*),p=(?P<proof>[A-Za-z0-9+/=]+)"
)
#: The form of PostgreSQL's ``pg_authid.rolpassword``.
_STORED: Final = re.compile(
    r"SCRAM-SHA-256\$(?P<iterations>\d{1,8}):(?P<salt>[\w+/=]+)\$(?P<stored>[\w+/=]+):(?P<server>[\w+/=]+)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Verifier:
    """The stored form of a password. It is enough to check a login, and not enough to log in elsewhere."""

    iterations: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def __str__(self) -> str:
        salt, stored, server = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"


def make_verifier(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> Verifier:
    """Make the verifier of a password, with a new salt unless one is given."""
    salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
    salted = hashlib.pbkdf2_hmac(_HASH, _prepared(password).encode(), salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", _HASH)).digest()
    return Verifier(iterations, salt, stored, hmac.digest(salted, b"Server Key", _HASH))


def read_verifier(text: str) -> Verifier:
    """Read a verifier from its text. Raises ``SettingsError``, which shows no part of the text."""
    match = _STORED.fullmatch(text.strip())
    if match is not None:
        salt, stored, server = (_decoded(match[name].encode()) for name in ("salt", "stored", "server"))
        iterations = int(match["iterations"])
        if 0 < iterations <= _MOST_ITERATIONS and salt and len(stored) == len(server) == _HASH_BYTES:
            return Verifier(iterations, salt, stored, server)
    raise SettingsError(
        "a verifier has the form SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>; "
        "`tidegate serve --print-user NAME` writes one"
    )


class Verifiers:
    """The verifiers of all users. An unknown user gets a verifier that no password fits."""

    __slots__ = ("_by_user", "_forms", "_secret")

    def __init__(self, by_user: dict[str, Verifier]) -> None:
        self._by_user = dict(by_user)
        #: The iterations and the length of the salt of each user.
        self._forms = [(each.iterations, len(each.salt)) for each in by_user.values()]
        self._secret = secrets.token_bytes(_SALT_BYTES)

    def __len__(self) -> int:
        return len(self._by_user)

    def of(self, user: str) -> Verifier:
        """Return the user's verifier. An unknown user gets a made-up one, the same one each time.

        Its iterations, and the length of its salt, are those of some user. Otherwise they would show that the
        user is unknown.
        """
        made_up = hmac.digest(self._secret, user.encode(), _HASH)
        forms = self._forms or [(ITERATIONS, _SALT_BYTES)]
        iterations, salt_bytes = forms[int.from_bytes(made_up, "big") % len(forms)]
        unknown = Verifier(iterations, hashlib.shake_256(made_up).digest(salt_bytes), made_up, made_up)
        return self._by_user.get(user, unknown)


class ScramExchange:
    """The exchange of one login."""

    __slots__ = ("_bare", "_first_answer", "_gs2", "_nonce", "_ours", "_verifier")

    def __init__(self, verifier: Verifier, nonce: bytes | None = None) -> None:
        """``nonce`` is the server's, by default a new one."""
        self._verifier = verifier
        self._ours = base64.b64encode(secrets.token_bytes(_NONCE_BYTES)) if nonce is None else nonce
        self._gs2 = self._bare = self._nonce = self._first_answer = b""

    def first(self, data: bytes) -> bytes:
        """Return the answer to the client's first message. Raises ``RequestRefused``."""
        match = _FIRST.fullmatch(data) if len(data) <= _MOST_BYTES else None
        if match is None or match["binding"].startswith(b"p"):
            raise _malformed("its first SCRAM message cannot be read, or asks for channel binding")
        self._gs2, self._bare = match["gs2"], match["bare"]
        self._nonce = match["nonce"] + self._ours
        salt = base64.b64encode(self._verifier.salt)
        self._first_answer = b"r=%s,s=%s,i=%d" % (self._nonce, salt, self._verifier.iterations)
        return self._first_answer

    def final(self, data: bytes) -> bytes | None:
        """Return the answer to a proof; ``None`` for a wrong one. Raises ``RequestRefused``."""
        match = _FINAL.fullmatch(data) if len(data) <= 2 * _MOST_BYTES else None
        if match is None:
            raise _malformed("its last SCRAM message cannot be read")
        if match["nonce"] != self._nonce or _decoded(match["binding"]) != self._gs2:
            raise _malformed("its last SCRAM message is of another login")
        signed = b",".join((self._bare, self._first_answer, match["unproved"]))
        signature = hmac.digest(self._verifier.stored_key, signed, _HASH)
        proof = _decoded(match["proof"])
        if len(proof) != len(signature):
            return None
        key = bytes(ours ^ theirs for ours, theirs in zip(signature, proof, strict=True))
        if not hmac.compare_digest(hashlib.sha256(key).digest(), self._verifier.stored_key):
            return None
        return b"v=" + base64.b64encode(hmac.digest(self._verifier.server_key, signed, _HASH))


def _decoded(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _malformed(what: str) -> RequestRefused:
    return RequestRefused(f"The client's login breaks its protocol: {what}", "login_malformed", "08P01")


def _prepared(password: str) -> str:
    """Return the password as clients hash it: prepared by SASLprep (RFC 4013).

    Clients hash a password that cannot be prepared as it is.
    """
    if password.isascii():
        return password
    kept = "".join(
        " " if stringprep.in_table_c12(letter) else letter
        for letter in password
        if not stringprep.in_table_b1(letter)
    )
    return unicodedata.normalize("NFKC", kept) or password
