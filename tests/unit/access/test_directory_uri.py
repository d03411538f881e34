"""Names of directories: a name means one place for Spark and for tidegate, or it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.access.directory_uri import directory_uri
from tidegate.errors import SettingsError


@pytest.mark.parametrize(
    ("named", "uri"),
    [
        ("/var/lib/tidegate", "file:///var/lib/tidegate"),
        ("/var/lib/tide gate/50%", "file:///var/lib/tide%20gate/50%25"),
        ("file:/var/lib/tidegate", "file:///var/lib/tidegate"),
        ("file:///var/lib/tidegate/", "file:///var/lib/tidegate"),
        ("FILE://localhost/var/lib", "file:///var/lib"),
        ("s3://bucket/feeds/a", "s3a://bucket/feeds/a"),
        ("s3a://bucket/feeds//a/", "s3a://bucket/feeds//a"),
        ("s3a://bucket", "s3a://bucket"),
        ("gs://bucket/feeds", "gs://bucket/feeds"),
        ("abfss://box@account.dfs.core.windows.net/feeds", "abfss://box@account.dfs.core.windows.net/feeds"),
        ("abfs://box@account.dfs.core.windows.net/feeds", "abfs://box@account.dfs.core.windows.net/feeds"),
        ("hdfs://names/feeds", "hdfs://names/feeds"),
        ("hdfs://node-1:8020/feeds", "hdfs://node-1:8020/feeds"),
    ],
)
def test_a_directory_has_one_name(named: str, uri: str) -> None:
    assert directory_uri(named) == uri
    assert directory_uri(uri) == uri


@pytest.mark.parametrize("named", ["feeds", "./feeds", "./dbfs:/feeds", "feeds/a:b"])
def test_a_path_without_a_scheme_is_a_path_of_this_machine(named: str) -> None:
    assert directory_uri(named) == Path(named).absolute().as_uri()


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("dbfs:/feeds", r"on no file system that tidegate knows \(dbfs:\).*s3a://.*\./dbfs:/feeds\.$"),
        ("dbfs:///feeds", "no file system that tidegate knows"),
        ("wasbs://box@account.blob.core.windows.net/x", "no file system that tidegate knows"),
        ("http://127.0.0.1/x", "no file system that tidegate knows"),
        ("C:feeds", "no file system that tidegate knows"),
        ("hdfs:/feeds", "names no name node: .*hdfs://namenode:8020/path"),
        ("hdfs:///feeds", "names no name node"),
        ("s3a:/bucket/feeds", "names no bucket: .*s3a://bucket/path"),
        ("s3:bucket/feeds", "names no bucket: .*s3a://bucket/path"),
        ("gs:///feeds", "names no bucket: .*gs://bucket/path"),
        ("abfss://box/feeds", "abfss://container@account.dfs.core.windows.net/path"),
        ("file:feeds", "names no absolute path: .*file:///path"),
        ("file://node-1/feeds", "is a file of the machine node-1"),
        ("s3a://bucket/feeds?endpoint_override=127.0.0.1", "has a part behind '\\?'"),
        ("s3a://bucket/feeds#a", "has a part behind '#'"),
        ("s3a://bucket:9000/feeds", "a port or a login"),
        ("s3a://bucket/a%20b", "has the character '%'"),
        ("hdfs://names/a b", "has the character ' '"),
        ("gs://bucket/f\u00e9", "has the character"),
    ],
)
def test_a_name_that_means_no_directory_is_refused_with_what_to_write(named: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        directory_uri(named)


@pytest.mark.parametrize("login", ["AKIAKEY:hush", "hush"])
def test_a_login_in_a_name_is_refused_and_not_repeated(login: str) -> None:
    with pytest.raises(SettingsError, match="a port or a login") as refused:
        directory_uri(f"s3a://{login}@bucket/feeds")
    assert "hush" not in str(refused.value)
