"""Tests what Spark's properties and the environment say of stores."""

from __future__ import annotations

import pytest

from tidegate.errors import SettingsError
from tidegate.spark.platform.file_systems import opened
from tidegate.spark.platform.store_access import StoreAccess

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_SESSION_TOKEN": "token",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "AWS_REGION": "eu-central-1",
    "HOME": "/root",
}


def test_the_environment_is_told_to_spark_and_to_tidegate_alike() -> None:
    access = StoreAccess.of({}, _ENVIRONMENT)
    assert access.for_spark() == {
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.session.token": "token",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-central-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert access.s3("bucket", "endpoint.region") == "eu-central-1"


def test_a_property_wins_and_a_login_is_not_made_of_two() -> None:
    conf = {
        "spark.hadoop.fs.s3a.access.key": "other",
        "spark.hadoop.fs.s3a.secret.key": "hush",
        "spark.hadoop.fs.s3a.bucket.mine.endpoint": "s3.mine",
        "spark.hadoop.fs.gs.project.id": "p",
        "spark.executor.memory": "1g",
        "spark.hadoop.dfs.replication": "3",
    }
    access = StoreAccess.of(conf, _ENVIRONMENT)
    assert access.s3("bucket", "session.token") == ""
    assert access.s3("bucket", "access.key") == "other"
    assert access.s3("mine", "endpoint") == "s3.mine"
    assert access.s3("bucket", "endpoint") == "http://127.0.0.1:9000"
    assert access.get("fs.gs.project.id") == "p"
    assert access.get("dfs.replication") == ""
    assert "hush" not in repr(access)


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("s3://bucket/a/b", "bucket/a/b"),
        ("gs://bucket/a", "bucket/a"),
        ("abfss://box@account.dfs.core.windows.net/a", "box/a"),
    ],
)
def test_a_store_is_opened_without_asking_it(uri: str, path: str) -> None:
    conf = {
        "spark.hadoop.fs.s3a.endpoint": "127.0.0.1:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.azure.account.key.account.dfs.core.windows.net": "aGFsbG8=",
    }
    place = opened(uri, StoreAccess.of(conf, {}))
    assert place.path == path
    assert place.filesystem.type_name == f"py::{uri.partition(':')[0].replace('s3', 's3a')}"


def test_a_patience_that_is_no_duration_is_refused() -> None:
    access = StoreAccess.of({"spark.hadoop.fs.s3a.connection.timeout": "soon"}, {})
    with pytest.raises(SettingsError, match=r"fs\.s3a\.connection\.timeout is 'soon'"):
        opened("s3a://bucket/a", access)


def test_a_file_system_without_its_library_is_refused_with_where_to_read() -> None:
    with pytest.raises(SettingsError, match=r"hdfs://127\.0\.0\.1:1/a cannot be opened") as refused:
        opened("hdfs://127.0.0.1:1/a", StoreAccess())
    assert "docs/spark-cluster.md#checkpoint-directories" in str(refused.value)
    assert "\n" not in str(refused.value)
