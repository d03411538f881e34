"""SCRAM-SHA-256: RFC 7677's example, PostgreSQL's stored form, and logins that are wrong."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import RequestRefused, SettingsError
from tidegate.serve.postgres.scram import (
    ScramExchange,
    Verifier,
    Verifiers,
    make_verifier,
    read_verifier,
)

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = b"rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=" + NONCE
SERVERS = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def test_the_example_of_the_rfc_is_answered_to_the_byte() -> None:
    exchange = ScramExchange(make_verifier("pencil", SALT), SERVERS)
    assert exchange.first(FIRST) == b"r=%s%s,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096" % (NONCE, SERVERS)
    assert exchange.final(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_another_password_gets_no_answer() -> None:
    exchange = ScramExchange(make_verifier("pen", SALT), SERVERS)
    exchange.first(FIRST)
    assert exchange.final(FINAL) is None


@pytest.mark.parametrize(
    "first",
    [b"", b"n,,n=user", b"p=tls-unique,,n=,r=abc", b"x,,n=,r=abc", b"n,,n=,r=" + b"a" * 2_000, b"n,,n=,r="],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(RequestRefused, match="SCRAM"):
        ScramExchange(make_verifier("pencil", SALT)).first(first)


@pytest.mark.parametrize(
    "final",
    [
        FINAL.replace(b"biws", b"eSws"),
        FINAL.replace(b"r=r", b"r=s"),
        FINAL[:-60],
        b"",
        FINAL.replace(b"c=biws,", b""),
    ],
)
def test_a_last_message_of_another_login_is_refused(final: bytes) -> None:
    exchange = ScramExchange(make_verifier("pencil", SALT), SERVERS)
    exchange.first(FIRST)
    with pytest.raises(RequestRefused, match="SCRAM"):
        exchange.final(final)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_are_a_login(first: bytes, final: bytes) -> None:
    exchange = ScramExchange(make_verifier("pencil", SALT, iterations=1))
    try:
        exchange.first(first)
        assert exchange.final(final) is None
    except RequestRefused:
        pass


def test_a_proof_of_any_length_is_compared() -> None:
    exchange = ScramExchange(make_verifier("pencil", SALT), SERVERS)
    exchange.first(FIRST)
    unproved = FINAL.partition(b",p=")[0]
    for proof in (b"AA==", b"AAAA", b"!" * 4, base64.b64encode(bytes(64))):
        if proof.startswith(b"!"):
            with pytest.raises(RequestRefused):
                exchange.final(unproved + b",p=" + proof)
        else:
            assert exchange.final(unproved + b",p=" + proof) is None


def test_a_verifier_has_postgresqls_form_and_not_the_password() -> None:
    verifier = make_verifier("pencil", SALT)
    text = str(verifier)
    assert text.startswith("SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$")
    assert "pencil" not in text
    assert read_verifier(text) == verifier


@pytest.mark.parametrize(
    "text",
    [
        "",
        "md5abc",
        "SCRAM-SHA-256$0:AA==$AA==:AA==",
        "SCRAM-SHA-256$4096:AAAA$AAAA:AAAA",
        "SCRAM-SHA-256$99999999:" + "A" * 20,
    ],
)
def test_what_is_no_verifier_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(SettingsError, match="--print-user") as caught:
        read_verifier(text)
    assert not text or text not in str(caught.value)


def test_a_user_that_does_not_exist_has_a_salt_that_stays() -> None:
    users = Verifiers({"ada": make_verifier("pencil", SALT)})
    unknown = users.of("bob")
    assert unknown == users.of("bob")
    assert unknown.salt != users.of("eve").salt
    assert len(unknown.salt) == len(users.of("ada").salt)
    assert isinstance(unknown, Verifier)


def test_a_user_that_does_not_exist_has_the_iterations_and_the_salt_of_some_user() -> None:
    long = make_verifier("pen", SALT * 3, iterations=10)
    users = Verifiers({"ada": make_verifier("pencil", SALT, iterations=20), "eve": long})
    unknown = [users.of(f"nobody{number}") for number in range(100)]
    assert {(each.iterations, len(each.salt)) for each in unknown} == {(20, 16), (10, 48)}
    only = Verifiers({"eve": long})
    assert {(each.iterations, len(each.salt)) for each in map(only.of, ("bob", "ada"))} == {(10, 48)}


def test_a_made_up_verifier_is_fit_by_no_client_key() -> None:
    """Its stored key is no hash of what a client could know: the salt that it is sent."""
    unknown = Verifiers({}).of("bob")
    guess = hmac.digest(unknown.salt, b"Client Key", "sha256")
    assert hashlib.sha256(guess).digest() != unknown.stored_key


def test_passwords_are_prepared_as_clients_prepare_them() -> None:
    assert make_verifier("a\u00a0b", SALT) == make_verifier("a b", SALT)
    assert make_verifier("I\u00adX", SALT) == make_verifier("IX", SALT)
    assert make_verifier("\u2168", SALT) == make_verifier("IX", SALT)
