"""Texts that leave the process, looked through once more."""

from __future__ import annotations

import json
from time import process_time

import pytest

from tests.unit.changefeed.feeds import DEFINITION
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.redaction import redacted, remember_secret

SECRET = "hunter2-of-this-process"


@pytest.fixture(autouse=True)
def _remembered() -> None:
    remember_secret(SECRET)


def test_no_reason_that_is_stored_has_a_secret() -> None:
    record = StateRecord(DEFINITION.id, DEFINITION.epoch, FeedState.FAILED, error=f"it said {SECRET}")
    assert json.loads(record.to_bytes())["error"] == "it said redacted"


@pytest.mark.parametrize("secret", ['pa"ss\\word', "-----BEGIN KEY-----\nMIIE\n", "pässwort"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_is_found_as_json_writes_it(secret: str, ascii_only: bool) -> None:
    remember_secret(secret)
    line = json.dumps({"error": f"it said {secret}"}, ensure_ascii=ascii_only)
    assert json.loads(redacted(line)) == {"error": "it said redacted"}


@pytest.mark.parametrize("secret", ["grün-Schlüssel", "tab\there'\"x", "\U0001f511 key", "half \udcff"])
def test_a_secret_is_found_as_python_writes_its_bytes_and_in_ascii(secret: str) -> None:
    remember_secret(secret)
    for written in (repr(secret.encode(errors="surrogatepass"))[1:], ascii(secret)):
        quote = written[0]
        assert redacted(f"it said {written}") == f"it said {quote}redacted{quote}"
        line = json.dumps({"error": f"it said {written}"})
        assert json.loads(redacted(line)) == {"error": f"it said {quote}redacted{quote}"}


@pytest.mark.parametrize("secret", ['pa"ss\\word', "-----BEGIN KEY-----\nMIIE\n", "pässwort", 'it\'s "so"'])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_is_found_in_an_answer_in_json_that_a_line_in_json_quotes(
    secret: str, ascii_only: bool
) -> None:
    remember_secret(secret)
    answer = json.dumps({"message": secret}, ensure_ascii=ascii_only)
    for cause in (answer, repr(secret)):
        assert secret not in json.loads(redacted(json.dumps({"cause": cause})))["cause"]
        assert json.loads(redacted(json.dumps({"cause": cause})))["cause"].count("redacted") == 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("asked https://me:word@registry:8081/x", "asked https://me:redacted@registry:8081/x"),
        ("asked https://me:wo@rd@registry, and so on", "asked https://me:redacted@registry, and so on"),
        ("kafka://h?sasl_password=a%26b&x=1", "kafka://h?sasl_password=redacted&x=1"),
        ("the server said PASSWORD=word&x=1", "the server said PASSWORD=redacted&x=1"),
        ("asked https://me:wo/rd@registry", "asked https://me:redacted@registry"),
        ("asked https://me:12/wo@rd@registry", "asked https://me:redacted@registry"),
        ("asked 'https://token@registry/x'", "asked 'https://redacted@registry/x'"),
        ("at kafka://h:9092,https://me:word@registry", "at kafka://h:9092,https://me:redacted@registry"),
        ('{"url":"http://:word@h"}', '{"url":"http://:redacted@h"}'),
        ("kafka://h:9092 and b@c", "kafka://h:9092 and b@c"),
        ("http://h:8081?user=b@c", "http://h:8081?user=b@c"),
        ("http://h:8081/b@c, which may be a password", "http://h:redacted@c, which may be a password"),
        ("http://h/b@c and http://[::1]:8081/b@c", "http://h/b@c and http://[::1]:8081/b@c"),
        ("https://me:secret%3A%2F%2Fname@registry", "https://me:secret%3A%2F%2Fname@registry"),
        ("https://secret%3A%2F%2Fname@registry", "https://secret%3A%2F%2Fname@registry"),
    ],
)
def test_a_password_in_an_address_is_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.parametrize(
    "piece",
    ["://", "://a:", "://a:b", "://a:b@", "://a/@", "://a:1,@", "a=", "client_key=", "password=x&", ":@"],
)
def test_it_takes_time_in_proportion(piece: str) -> None:
    def cost(count: int) -> float:
        begin = process_time()
        redacted(piece * count)
        return process_time() - begin

    cost(1_000)
    assert cost(80_000) < max(0.05, 12 * cost(20_000))
