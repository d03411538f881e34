"""Certificates for tests: an authority of our own, and what it signs."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

KEY_PASSWORD = b"open sesame"


class Pair(NamedTuple):
    """A certificate and its private key, both PEM."""

    cert: bytes
    key: bytes


class Authority:
    """Signs certificates for 127.0.0.1 that are good for a day."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("tests")
        self.cert = _pem(_sign(self._name, self._name, self._key, self._key, authority=True))

    def pair(self, name: str, *, encrypted: bool = False) -> Pair:
        """A new key, with a password or without, and its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = _sign(_name(name), self._name, key, self._key, authority=False)
        lock: serialization.KeySerializationEncryption = (
            serialization.BestAvailableEncryption(KEY_PASSWORD) if encrypted else serialization.NoEncryption()
        )
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
        return Pair(_pem(cert), key.private_bytes(*form, lock))

    def server_context(self, folder: Path, *, asks_clients: bool = False) -> ssl.SSLContext:
        """A server's side of TLS, with a certificate of this authority."""
        pair, file = self.pair("server"), folder / "server.pem"
        file.write_bytes(pair.cert + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        if asks_clients:
            context.load_verify_locations(cadata=self.cert.decode())
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def parameter(pem: bytes) -> str:
    """PEM as it stands in a URL."""
    return quote(base64.b64encode(pem), safe="")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(cert: x509.Certificate) -> bytes:
    return cert.public_bytes(serialization.Encoding.PEM)


def _sign(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    *,
    authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(signer, hashes.SHA256())
    )
