"""Tests how Kafka's Java client is told what librdkafka is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.client.kafka.connection import KafkaConnection
from tidegate.spark.platform.kafka_source import consumers_for, java_config


def test_an_open_connection_needs_brokers_alone() -> None:
    assert java_config(KafkaConnection("a:1,b:2")) == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "PLAINTEXT",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")],
)
def test_a_login_is_a_line_whose_quotes_cannot_be_left(mechanism: str, module: str) -> None:
    connection = KafkaConnection(
        "a:1",
        "SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username="me",
        sasl_password='a"b\\c; d="e',
    )
    config = java_config(connection)
    assert config["sasl.mechanism"] == mechanism
    assert config["sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="me" password="a\\"b\\\\c; d=\\"e";'
    )


def test_certificates_go_as_text(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("ca", "certificate", "key")}
    for name, path in paths.items():
        path.write_text(f"PEM of {name}")
    connection = KafkaConnection(
        "a:1",
        "SSL",
        ssl_ca_location=str(paths["ca"]),
        ssl_certificate_location=str(paths["certificate"]),
        ssl_key_location=str(paths["key"]),
        ssl_key_password="secret",
    )
    assert java_config(connection) == {
        "bootstrap.servers": "a:1",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "PEM of ca",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "PEM of certificate",
        "ssl.keystore.key": "PEM of key",
        "ssl.key.password": "secret",
    }


@pytest.mark.parametrize(("partitions", "consumers"), [(1, "64"), (32, "64"), (64, "128"), (256, "512")])
def test_an_executor_keeps_more_consumers_than_partitions(partitions: int, consumers: str) -> None:
    assert consumers_for(partitions) == {"spark.kafka.consumer.cache.capacity": consumers}
