"""Settings of a connection, and what is said when nobody answers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidegate.client.kafka.cluster import Cluster
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.client.kafka.writer import write_record
from tidegate.errors import BrokerUnavailable, SettingsError
from tidegate.verify import TopicPartition

NOBODY = KafkaConnection("127.0.0.1:1", timeout_s=0.3)
SECRET = KafkaConnection(
    "kafka:9093",
    security_protocol="SASL_SSL",
    ssl_ca_location="ca.pem",
    ssl_key_password="key secret",
    sasl_username="ann",
    sasl_password="login secret",
)


def test_an_open_connection_configures_neither_tls_nor_login() -> None:
    config = KafkaConnection("kafka:9092").config()
    assert {name for name in config if name.startswith(("ssl", "sasl"))} == set()


def test_a_login_over_tls_configures_both() -> None:
    config = SECRET.config()
    del config["logger"]
    assert config == {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "allow.auto.create.topics": False,
        "ssl.ca.location": "ca.pem",
        "ssl.key.password": "key secret",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ann",
        "sasl.password": "login secret",
    }


def test_a_login_without_tls_configures_no_tls() -> None:
    config = KafkaConnection(
        "kafka:9092", "SASL_PLAINTEXT", ssl_ca_location="ca.pem", sasl_username="ann", sasl_password="x"
    ).config()
    assert "ssl.ca.location" not in config


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(SECRET)


@pytest.mark.parametrize(
    "name",
    [
        "bootstrap_servers",
        "ssl_ca_location",
        "ssl_certificate_location",
        "ssl_key_location",
        "ssl_key_password",
        "sasl_username",
        "sasl_password",
    ],
)
def test_text_that_is_no_utf8_is_refused_by_name_and_not_shown(name: str) -> None:
    """The form in which Python gives the byte FF of an argument or the environment."""
    with pytest.raises(
        SettingsError, match=rf"The Kafka setting {name} has a byte that is no UTF-8"
    ) as refused:
        KafkaConnection(**{name: "hush\udcff"})  # type: ignore[arg-type]
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_login_without_a_password_is_refused(protocol: str) -> None:
    with pytest.raises(SettingsError, match="TIDEGATE_SASL_PASSWORD"):
        KafkaConnection(security_protocol=protocol, sasl_username="ann")


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(SettingsError, match="'TLS' is not one of"):
        KafkaConnection(security_protocol="TLS")


def test_a_certificate_that_cannot_be_read_is_a_setting_at_fault() -> None:
    with pytest.raises(SettingsError, match=r"cannot be used: .*ssl\.ca\.location"):
        Cluster(KafkaConnection(security_protocol="SSL", ssl_ca_location="missing.pem"))


def test_asking_nobody_ends_in_a_sentence() -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        Cluster(NOBODY).partition_counts(["rows"])
    assert str(caught.value).startswith(
        "Kafka at 127.0.0.1:1 gave no answer within 0.3 s while listing topics"
    )


def test_offsets_of_nobody_end_in_a_sentence() -> None:
    with pytest.raises(BrokerUnavailable, match="asking where topics begin and end"):
        Cluster(NOBODY).bounds([TopicPartition("rows", 0)])


def test_writing_to_nobody_ends_in_a_sentence() -> None:
    with pytest.raises(BrokerUnavailable, match=r"while writing to rows\[0\]"):
        write_record(NOBODY, TopicPartition("rows", 0), b"k", b"v")


_ONE_TOO_MANY = """
import ctypes
from confluent_kafka import Producer
from tidegate.client.kafka.connection import KafkaConnection
from tidegate.errors import ClientsExhausted
from tidegate.worker.kafka.clients import opened

keys, key = [], ctypes.c_uint()
create = ctypes.CDLL(None).pthread_key_create
while create(ctypes.byref(key), None) == 0:
    keys.append(key.value)
connection = KafkaConnection("127.0.0.1:1")
by_worker = lambda: opened(lambda: Producer(connection.config()), "x")
for attempt in (lambda: connection.open(Producer), by_worker):
    try:
        attempt()
    except ClientsExhausted as error:
        print(error)
ctypes.CDLL(None).pthread_key_delete(ctypes.c_uint(keys.pop()))
connection.open(Producer)
print("opened")
"""


def test_a_process_without_room_for_another_client_says_so_and_opens_one_when_there_is_room() -> None:
    """The system gives a process a bounded number of keys for data of threads, and each client takes one."""
    ran = subprocess.run([sys.executable, "-c", _ONE_TOO_MANY], capture_output=True, text=True, check=True)
    first, second, third = ran.stdout.splitlines()
    assert first == second
    assert first.startswith("This process has no room for another Kafka client (Failed to initialize thread")
    assert third == "opened"
