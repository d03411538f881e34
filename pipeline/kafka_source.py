"""The log as a stream of Spark's Kafka source, which speaks to Kafka by the Java client."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidegate.client.connection import KafkaConnection

_LOGIN = "org.apache.kafka.common.security.{module} required username={name} password={word};"


def log_stream(session: SparkSession, connection: KafkaConnection, log: str, batch_records: int) -> DataFrame:
    """The log from its first record, committed records only; at most ``batch_records`` a batch, 0 for all."""
    reader = (
        session.readStream.format("kafka")
        .option("subscribe", log)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "false")  # what is lost is noticed by the tasks, as a hole
        .option("kafka.isolation.level", "read_committed")
    )
    for name, value in java_config(connection).items():
        reader = reader.option(f"kafka.{name}", value)
    if batch_records:
        reader = reader.option("maxOffsetsPerTrigger", batch_records)
    return reader.load()


def java_config(connection: KafkaConnection) -> dict[str, str]:
    """A connection as Kafka's Java client takes it: its certificates as text, its login as a JAAS line."""
    config = {
        "bootstrap.servers": connection.bootstrap_servers,
        "security.protocol": connection.security_protocol,
    }
    if connection.ssl_ca_location is not None:
        config["ssl.truststore.type"] = "PEM"
        config["ssl.truststore.certificates"] = Path(connection.ssl_ca_location).read_text()
    if connection.ssl_certificate_location is not None and connection.ssl_key_location is not None:
        config["ssl.keystore.type"] = "PEM"
        config["ssl.keystore.certificate.chain"] = Path(connection.ssl_certificate_location).read_text()
        config["ssl.keystore.key"] = Path(connection.ssl_key_location).read_text()
    if connection.ssl_key_password is not None:
        config["ssl.key.password"] = connection.ssl_key_password
    if connection.security_protocol.startswith("SASL"):
        config["sasl.mechanism"] = connection.sasl_mechanism
        config["sasl.jaas.config"] = _login(connection)
    return config


def _login(connection: KafkaConnection) -> str:
    module = "plain.PlainLoginModule" if connection.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
    name, word = connection.sasl_username or "", connection.sasl_password or ""
    return _LOGIN.format(module=module, name=_quoted(name), word=_quoted(word))


def _quoted(text: str) -> str:
    """A text in a JAAS line, which knows backslashes as Java does."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
