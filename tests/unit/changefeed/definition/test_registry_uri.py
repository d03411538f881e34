"""The schema registry's URL: what it says, what is refused, and what is never shown."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.registry_uri import RegistryUri, parse_registry_uri
from tidegate.errors import StatementError

PEM = b"-----BEGIN CERTIFICATE-----\n>>>>~~~~\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN PRIVATE KEY-----\n>>>>~~~~\n-----END PRIVATE KEY-----\n"
PEM_TEXT, KEY_TEXT = (base64.b64encode(each).decode() for each in (PEM, KEY))


def refusal(text: str) -> str:
    with pytest.raises(StatementError) as caught:
        parse_registry_uri(text)
    assert caught.value.position == -1
    return str(caught.value)


def test_a_url_with_all_its_parts() -> None:
    uri = parse_registry_uri(
        f"https://me:hu%2Fsh@registry:8081/apis/ccompat/v7/?timeout=1m30s"
        f"&ca_cert={quote(PEM_TEXT, safe='')}&client_cert={quote(PEM_TEXT, safe='')}"
        f"&client_key={quote(KEY_TEXT, safe='')}"
    )
    assert uri.url == "https://registry:8081/apis/ccompat/v7"
    assert (uri.user, uri.password) == ("me", "hu/sh")
    assert uri.timeout_s == 90.0
    assert (uri.ca_cert, uri.client_cert, uri.client_key) == (PEM, PEM, KEY)


def test_what_is_not_given_is_empty_and_the_timeout_is_cockroachs() -> None:
    assert parse_registry_uri("http://h") == RegistryUri(url="http://h", timeout_s=30.0)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://h", "http://h"),
        ("HTTP://H:81/", "http://h:81"),
        ("http://[::1]:8081/a", "http://[::1]:8081/a"),
        ("http://h/a%2Fb//", "http://h/a%2Fb"),
    ],
)
def test_the_url_is_without_login_parameters_and_last_slash(text: str, url: str) -> None:
    assert parse_registry_uri(text).url == url


def test_base_64_may_stand_in_the_url_as_it_is() -> None:
    assert "+" in PEM_TEXT
    assert parse_registry_uri(f"https://h?ca_cert={PEM_TEXT}").ca_cert == PEM


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "needs a URL"),
        ("registry:8081", "needs a URL"),
        ("kafka://h", "needs a URL: https://host:port or http://host:port"),
        ("http://", "needs a URL"),
        ("http://h:port", "its host or port cannot be read"),
        ("http://h:99999", "its host or port cannot be read"),
        ("http://[::1", "is not a URL"),
        ("http://h#x", "has a #: write %23"),
        ("http://one,two", "names more than one host"),
        ("http://one two", "names more than one host"),
        ("http://h?colour=red&size=1", "unknown schema registry parameters: 2 of them. Known: ca_cert"),
        ("http://h?timeout=1s&timeout=2s", "given twice"),
        ("http://h?timeout=soon", "param timeout of confluent_schema_registry: not a duration"),
        ("http://h?timeout=", "param timeout of confluent_schema_registry"),
        ("http://h?timeout=0s", "must be above zero"),
        ("http://h?timeout=-1s", "must be above zero"),
        ("http://h?timeout=10m0.001s", "param timeout of confluent_schema_registry must be 10m or less"),
        ("http://h?timeout=1000h", "must be 10m or less: a registry that says nothing holds each call"),
        ("http://h?timeout=9223372036854775807ns", "must be 10m or less"),
        ("https://h?ca_cert=~", "param ca_cert must be base 64 encoded"),
        ("https://h?ca_cert=AAAA", "param ca_cert must be PEM text"),
        (f"https://h?client_cert={PEM_TEXT}", "client_cert and client_key belong together"),
        (f"https://h?client_key={KEY_TEXT}", "client_cert and client_key belong together"),
        (f"http://h?ca_cert={PEM_TEXT}", "need an https URL"),
    ],
)
def test_refusals(text: str, words: str) -> None:
    assert words in refusal(text)


def test_the_longest_timeout_is_ten_minutes() -> None:
    assert parse_registry_uri("http://h?timeout=10m").timeout_s == 600.0


@pytest.mark.parametrize("cut", ["/", "?", "#"])
def test_a_password_that_was_not_escaped_is_not_taken_for_a_path(cut: str) -> None:
    text = refusal(f"https://me:12{cut}hush@h")
    assert "has an @ behind its host: in user and password write %2F for /, %3F for ?, %23 for #" in text
    assert "hush" not in text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h:81/a/?timeout=5s", "http://h:81/a?timeout=5s"),
        ("http://me@h", "http://redacted@h"),
        ("http://me:hush@h", "http://me:redacted@h"),
        ("http://:hush@h", "http://:redacted@h"),
        ("http://m%40e:hush@h", "http://m%40e:redacted@h"),
        (
            f"https://h?client_key={KEY_TEXT}&client_cert={PEM_TEXT}",
            f"https://h?client_key=redacted&client_cert={quote(PEM_TEXT.replace('+', ' '), safe='/')}",
        ),
    ],
)
def test_secrets_are_redacted_and_the_rest_is_shown(text: str, shown: str) -> None:
    assert parse_registry_uri(text).redacted() == shown


#: Long enough not to be found by chance.
secrets = st.text(st.characters(codec="utf-8"), min_size=6, max_size=12).map("hush{}".format)


@given(secrets, st.booleans())
def test_secrets_never_show(secret: str, asks_too_much: bool) -> None:
    key = base64.b64encode(f"-----BEGIN {secret}".encode("ascii", "xmlcharrefreplace")).decode()
    text = (
        f"https://me:{quote(secret, safe='')}@h?client_key={quote(key)}&client_cert={quote(PEM_TEXT)}"
        f"{'&colour=red' if asks_too_much else ''}"
    )
    if asks_too_much:
        shown = refusal(text)
    else:
        uri = parse_registry_uri(text)
        assert uri.password == secret
        shown = f"{uri!r} {uri} {uri.redacted()}"
    for hidden in (secret, quote(secret, safe=""), key):
        assert hidden not in shown
