"""Sink URIs: what they mean to librdkafka, and that secrets stay inside."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from tidegate.changefeed.definition.sink import SinkUri, parse_sink_uri
from tidegate.errors import StatementError

PEM = b"-----BEGIN CERTIFICATE-----\nZm9v\n-----END CERTIFICATE-----\n"
PEM_TEXT = base64.b64encode(PEM).decode()
SECURE = (
    f"kafka://a:9093,b?topic_prefix=p.&tls_enabled=true&ca_cert={quote(PEM_TEXT)}"
    f"&client_cert={quote(PEM_TEXT)}&client_key={quote(PEM_TEXT)}"
    "&sasl_enabled=true&sasl_mechanism=SCRAM-SHA-256&sasl_user=me&sasl_password=hu%26sh"
)


def test_a_plain_sink_needs_only_its_brokers() -> None:
    sink = parse_sink_uri("kafka://localhost:9092")
    assert sink == SinkUri(("localhost:9092",))
    assert sink.kafka_config() == {"bootstrap.servers": "localhost:9092", "security.protocol": "plaintext"}
    assert sink.redacted() == "kafka://localhost:9092"


@pytest.mark.parametrize(
    ("hosts", "parsed"),
    [
        ("h", ("h:9092",)),
        ("h:1,h2", ("h:1", "h2:9092")),
        ("[::1]", ("[::1]:9092",)),
        ("[::1]:5,10.0.0.1", ("[::1]:5", "10.0.0.1:9092")),
    ],
)
def test_brokers_get_the_usual_port_where_they_name_none(hosts: str, parsed: tuple[str, ...]) -> None:
    assert parse_sink_uri(f"kafka://{hosts}/").hosts == parsed


def test_everything_reaches_librdkafka() -> None:
    assert parse_sink_uri(SECURE).kafka_config() == {
        "bootstrap.servers": "a:9093,b:9092",
        "security.protocol": "sasl_ssl",
        "ssl.ca.pem": PEM.decode(),
        "ssl.certificate.pem": PEM.decode(),
        "ssl.key.pem": PEM.decode(),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "me",
        "sasl.password": "hu&sh",
    }


@pytest.mark.parametrize(
    ("query", "protocol"),
    [
        ("tls_enabled=true", "ssl"),
        ("sasl_enabled=1&sasl_user=u&sasl_password=p", "sasl_plaintext"),
        ("tls_enabled=T&insecure_tls_skip_verify=true", "ssl"),
    ],
)
def test_librdkafka_accepts_the_settings(query: str, protocol: str) -> None:
    config = parse_sink_uri(f"kafka://localhost:1?{query}").kafka_config()
    assert config["security.protocol"] == protocol
    Producer({**config, "log_level": 0})


def test_secrets_are_in_no_text_that_is_shown() -> None:
    sink = parse_sink_uri(SECURE)
    assert sink.redacted().endswith(
        "&client_key=redacted&sasl_enabled=true&sasl_mechanism=SCRAM-SHA-256&sasl_user=me"
        "&sasl_password=redacted"
    )
    for text in (sink.redacted(), repr(sink), str(sink)):
        assert "hu&sh" not in text
        assert "hu%26sh" not in text


@given(st.text("abcXYZ&%+='? \"é", min_size=1), st.text("abcXYZ.,&%+='? é"))
def test_a_redacted_uri_reads_back_but_for_its_secrets(password: str, user: str) -> None:
    uri = f"kafka://h?sasl_enabled=true&sasl_user=u{quote(user)}&sasl_password={quote(password)}"
    sink = parse_sink_uri(uri)
    assert sink.sasl_password == password
    shown = parse_sink_uri(sink.redacted())
    assert (shown.hosts, shown.sasl_user, shown.sasl_password) == (sink.hosts, sink.sasl_user, "redacted")


def test_base_64_may_have_an_unescaped_plus() -> None:
    pem = b"-----BEGIN X-----\n\xfb".replace(b"\xfb", b">>>~~~")
    text = base64.b64encode(pem).decode()
    assert "+" in text
    assert parse_sink_uri(f"kafka://h?tls_enabled=true&ca_cert={text}").ca_cert == pem


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("kafka://h?x=1&a=2", "unknown kafka sink query parameters: 2 of them. Known: topic_prefix"),
        ("kafka://h?schema_topic=x", "schema_topic is not yet supported"),
        ("kafka://h?topic_name=x", "topic_name is not yet supported"),
        ("kafka://h?tls_enabled=foo", "param tls_enabled must be a bool"),
        ("kafka://h?ca_cert=!", "param ca_cert must be base 64 encoded"),
        ("kafka://h?tls_enabled=true&ca_cert=Zm9v", "param ca_cert must be PEM text"),
        (f"kafka://h?ca_cert={PEM_TEXT}", "ca_cert requires tls_enabled=true"),
        (f"kafka://h?tls_enabled=true&client_cert={PEM_TEXT}", "client_cert and client_key belong together"),
        ("kafka://h?sasl_user=u", "sasl_enabled must be enabled if sasl_user is provided"),
        ("kafka://h?sasl_enabled=true", "sasl_user must be provided when SASL is enabled"),
        ("kafka://h?sasl_enabled=true&sasl_user=u", "sasl_password must be provided when SASL is enabled"),
        ("kafka://h?sasl_enabled=true&sasl_mechanism=X", "param sasl_mechanism must be one of PLAIN"),
        (
            "kafka://h?sasl_enabled=true&sasl_mechanism=AWS_MSK_IAM",
            "sasl_mechanism AWS_MSK_IAM is not supported yet",
        ),
        ("kafka://h?topic_prefix=a&topic_prefix=b", "a parameter of the sink URI is given twice"),
        ("kafka://", "needs its brokers as host:port"),
        ("kafka://a,,b", "needs its brokers as host:port"),
        ("kafka://a:x", "needs its brokers as host:port"),
        ("kafka://me:hush@h", "use sasl_user and sasl_password"),
        ("kafka://h/topic", "must not have a path"),
        ("kafka://h#x", "write %23"),
        ("kafka://[h", "the sink is not a URI"),
        ("s3://bucket", "sink s3 is not supported yet; supported: kafka://host:port"),
        ("localhost", "unsupported sink: no scheme"),
        ("rabbit://h", "unsupported sink: its scheme is unknown"),
    ],
)
def test_refusals_without_secrets(uri: str, text: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_sink_uri(uri)
    assert text in str(caught.value)
    assert "hush" not in str(caught.value)
