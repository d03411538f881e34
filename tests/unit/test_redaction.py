"""Texts that leave the process, looked through once more."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from time import process_time
from urllib.parse import quote, quote_plus

import pytest

from tests.unit.changefeed.feeds import DEFINITION
from tidegate.changefeed.definition.feed import FeedState
from tidegate.changefeed.lifecycle.job_records import StateRecord
from tidegate.redaction import HeldSecrets, redacted, redacted_values, remember_secret

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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('feed "password=a" failed', 'feed "password=redacted" failed'),
        ('password=a"b', 'password=redacted"b'),
        (f'"{SECRET}"', '"redacted"'),
        ("ends-in-a-slash\\", "redacted"),
        ('ends-in-a-slash"', 'ends-in-a-slash"'),
    ],
)
def test_json_of_redacted_values_is_json(text: str, shown: str) -> None:
    remember_secret("ends-in-a-slash\\")
    values = {"reason": text, SECRET: [1, 2.5, None, True, (text,)], "of": {"cause": ValueError(SECRET)}}
    assert json.loads(json.dumps(redacted_values(values))) == {
        "reason": shown,
        "redacted": [1, 2.5, None, True, [shown]],
        "of": {"cause": "ValueError('redacted')"},
    }


@pytest.mark.parametrize("secret", ["p@ss/w0rd of+mine", "grün-Schlüssel", "exactly-9", "~~~???>>>ooo"])
def test_a_secret_is_found_as_addresses_and_headers_write_it(secret: str) -> None:
    remember_secret(secret)
    for written in (quote(secret), quote(secret, safe=""), quote_plus(secret)):
        assert redacted(f"asked http://h/{written}?x") == "asked http://h/redacted?x"
        small = re.sub("%..", lambda sign: sign[0].lower(), written)
        assert redacted(f"asked http://h/{small}?x") == "asked http://h/redacted?x"
    for user, encode in product(("", "m:", "me:", "you:"), (b64encode, urlsafe_b64encode)):
        text = f"Authorization: Basic {encode((user + secret).encode()).decode()}"
        assert "redacted" in redacted(text)
        hidden = redacted(text).removeprefix("Authorization: Basic ").replace("redacted", "")
        assert len(hidden) <= 4 * (len(user) + 2) // 3 + 4  # the user, and less than a sign at each end


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
        (
            "https://me:secret://name@r1:80,https://me:word@r2:80,https://me:secret://name@r3",
            "https://me:secret://name@r1:80,https://me:redacted@r3",
        ),
        ("https://me:secret://name@r1,https://r2", "https://me:secret://name@r1,https://r2"),
        ('{"sasl_password": "word", "x": 1}', '{"sasl_password": "redacted", "x": 1}'),
        ('{"client_key":"a\\"b\\\\","x":"y"}', '{"client_key":"redacted","x":"y"}'),
        ("{'password': 'it\\'s', 'x': 'y'}", "{'password': 'redacted', 'x': 'y'}"),
        (json.dumps('{"password": "a\\"b\\\\", "x": 1}'), json.dumps('{"password": "redacted", "x": 1}')),
        ('{"password": "secret://name"}', '{"password": "secret://name"}'),
        ('the "password=word\\" that', 'the "password=redacted\\" that'),
        ("password=wo\\rd\\\\&x=1", "password=redacted&x=1"),
        ("POST client_id=a&client_secret=b&x=1", "POST client_id=a&client_secret=redacted&x=1"),
        ("ssl.key.password=a, ssl.keystore.location=b", "ssl.key.password=redacted ssl.keystore.location=b"),
        ('required username="u" password="it";', 'required username="u" password="redacted";'),
        (json.dumps({"jaas": 'password="it";'}), json.dumps({"jaas": 'password="redacted";'})),
        ("sasl.password='a b', x='c d'", "sasl.password='redacted', x='c d'"),
        ("{'password': \"it's\", 'x': 'y'}", "{'password': \"redacted\", 'x': 'y'}"),
        ('password="secret://name"', 'password="secret://name"'),
        ("answered 400: access_token=abc", "answered 400: access_token=redacted"),
        ('{"access_token": "abc", "token_type": "x"}', '{"access_token": "redacted", "token_type": "x"}'),
        ("sasl_client_secret=secret://name&x=1", "sasl_client_secret=secret://name&x=1"),
        ("go on with --token=abc", "go on with --token=abc"),
    ],
)
def test_a_password_in_an_address_is_hidden(text: str, shown: str) -> None:
    assert redacted(text) == shown


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "piece",
    [
        "://",
        "://a:",
        "://a:b",
        "://a:b@",
        "://a/@",
        "://a:1,@",
        "a=",
        "client_key=",
        "password=x&",
        ":@",
        "://a:secret://b@",
        'client_key":"',
        "password': '\\",
        'password\\":\\"',
        "password=\\",
        "a.b-",
        "a-secret",
        "password=\\\\'",
        "password='",
        "password='a\"",
        "'password': \"",
    ],
)
def test_it_takes_time_in_proportion(piece: str) -> None:
    def cost(count: int) -> float:
        begin = process_time()
        redacted(piece * count)
        return process_time() - begin

    cost(1_000)
    assert cost(80_000) < max(0.05, 12 * cost(20_000))


def test_a_line_of_a_key_is_found_alone() -> None:
    lines = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC", "BKcwggSjAgEAAoIBAQDAxyzzy0plugh0"]
    remember_secret("\n".join(["-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----", ""]))
    assert redacted(f"line 2 is {lines[1]}") == "line 2 is redacted"
    assert redacted("no -----BEGIN PRIVATE KEY----- in it") == "no -----BEGIN PRIVATE KEY----- in it"


def test_a_secret_that_a_feed_names_is_found_as_long_as_somebody_uses_it() -> None:
    first = HeldSecrets(["of a feed", "of both"])
    second = HeldSecrets(["of both"])
    assert redacted("of a feed, of both") == "redacted, redacted"
    del first
    assert redacted("of a feed, of both") == "of a feed, redacted"
    del second
    assert redacted("of a feed, of both") == "of a feed, of both"


def test_a_secret_of_the_operator_stays_whoever_lets_it_go() -> None:
    held = HeldSecrets([SECRET])
    del held
    assert redacted(SECRET) == "redacted"


@pytest.mark.parametrize("count", [1, 20, 3_000])
def test_secrets_are_found_however_many_there_are(count: int) -> None:
    secrets = [f"secret number {number:09}" for number in range(count)]
    held = HeldSecrets([*secrets, "number"])  # it stands within the others
    for secret in secrets[:: max(count // 7, 1)]:
        assert redacted(f"it said {secret}, or the number {secret[3:-1]}!") == (
            f"it said redacted, or the redacted {secret[3:-1].replace('number', 'redacted')}!"
        )
    del held


def test_secrets_come_and_go_in_several_threads_while_others_are_looked_for() -> None:
    """Each is found from the moment on at which its holder has it."""
    with ThreadPoolExecutor(8) as threads:
        assert not [text for texts in threads.map(_held_and_found, range(8)) for text in texts if text]


def _held_and_found(thread: int) -> list[str]:
    """Return the secrets that were not found."""
    missed = []
    for number in range(300):
        secret = f"{thread} holds {number:04}"
        held = HeldSecrets([secret])
        missed += [] if redacted(f"<{secret}>") == "<redacted>" else [secret]
        del held
        missed += [] if redacted(f"<{secret}>") == f"<{secret}>" else [secret]
    return missed


@pytest.mark.long
def test_a_line_of_the_log_takes_as_long_however_many_secrets_there_are() -> None:
    line = "a line of the log, about a feed, which has nothing secret in it at all. " * 2

    def took() -> float:
        redacted(line)
        begun = process_time()
        for _ in range(1_000):
            redacted(line)
        return process_time() - begun

    held = [HeldSecrets(f"few {number}" for number in range(20))]
    few = took()
    held.append(HeldSecrets(f"of feed {number:09}" for number in range(10_000)))
    assert took() < 20 * few + 0.05
