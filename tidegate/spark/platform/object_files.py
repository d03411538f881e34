"""Objects of a store (S3, GCS, Azure) as files of pyarrow. Code uses them in the same way as files.

An object appears as a whole, with its last byte, or not at all. So nothing is written under another name and
moved: a move of an object is a copy and a removal. There are no directories.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, NoReturn

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store
from pyarrow import fs

from tidegate.errors import SettingsError, brief
from tidegate.spark.platform.store_access import StoreAccess
from tidegate.spark.platform.whole_files import WholeObjects

_LISTED: Final = 1_000
#: A store that is silent for so long counts as one that does not answer. A request carries 5 MiB at most, or
#: one whole object.
_SILENT: Final = timedelta(seconds=20)
_CONNECT: Final = timedelta(seconds=5)
_DURATION: Final = re.compile(r"(\d+)(ms|s|m)?")
_UNITS: Final = {None: "milliseconds", "ms": "milliseconds", "s": "seconds", "m": "minutes"}


def _first_line(error: BaseError) -> str:
    """Return what obstore says, without the trace below it."""
    return brief(str(error).partition("\n")[0].rstrip(" ."))


def object_files(scheme: str, place: str, access: StoreAccess) -> ObjectFiles:
    """Return the files of a bucket or container, without looking into it."""
    match scheme:
        case "s3a":
            return ObjectFiles(scheme, place, _s3_store(place, access))
        case "gs":
            return ObjectFiles(scheme, place, _gcs_store(place, access))
        case _:
            return ObjectFiles(scheme, place.partition("@")[0], _azure_store(place, access))


class ObjectFiles(WholeObjects):
    """The objects of one bucket. A path begins with the bucket's name: ``bucket/feeds/query.json``.

    Raises ``FileNotFoundError`` for an object that is missing, ``PermissionError`` for a login that the store
    does not take, and ``OSError`` for a store that does not answer.
    """

    def __init__(self, kind: str, bucket: str, store: ObjectStore) -> None:
        self._kind = kind
        self._bucket = bucket
        self._store = store

    def put(self, path: str, content: bytes) -> None:
        """Store the object, or replace it."""
        with self._naming(path):
            obstore.put(self._store, self._key(path), content)

    def put_first(self, path: str, content: bytes) -> bool:
        """Store the object if there is none; return whether there was none.

        The store decides (``If-None-Match: *``), so of several writers one wins. A put that is sent again
        after a lost answer finds its own object: ``False`` does not say whose object it is.
        """
        try:
            with self._naming(path):
                obstore.put(self._store, self._key(path), content, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    def get_type_name(self) -> str:
        """Return the scheme."""
        return self._kind

    def get_file_info(self, paths: Iterable[str]) -> list[fs.FileInfo]:
        """Return which of these objects exist, with their sizes."""
        return [self._info(path) for path in paths]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """Return the objects right below a path, or all below it; an empty list if there are none."""
        return [fs.FileInfo(path, fs.FileType.File, size=size) for path, size in self._below(selector)]

    def open_input_stream(self, path: str) -> pa.BufferReader:
        """Return a reader of the whole object, which is in memory then."""
        with self._naming(path):
            return pa.BufferReader(pa.py_buffer(bytes(obstore.get(self._store, self._key(path)).bytes())))

    open_input_file = open_input_stream

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: an object needs no directory."""

    def delete_file(self, path: str) -> None:
        """Remove the object. A missing object is no error, since stores do not tell of it."""
        with self._naming(path):
            obstore.delete(self._store, self._key(path))

    def delete_dir(self, path: str) -> None:
        """Remove all objects below the path."""
        found = [self._key(each) for each, _ in self._below(fs.FileSelector(path, recursive=True))]
        with self._naming(path):
            obstore.delete(self._store, found)

    def normalize_path(self, path: str) -> str:
        """Return the path as it is."""
        return path

    def open_output_stream(self, path: str, metadata: object) -> NoReturn:
        """Refuse: a stream that is closed after an exception would store what was written so far."""
        raise NotImplementedError(f"{path}: objects are written whole, by put.")

    def open_append_stream(self, path: str, metadata: object) -> NoReturn:
        """Refuse: objects do not grow."""
        raise NotImplementedError(f"{path}: objects do not grow.")

    def move(self, src: str, dest: str) -> NoReturn:
        """Refuse: a move is a copy and a removal, with a time between them."""
        raise NotImplementedError(f"{src} is not moved to {dest}: objects are written where they belong.")

    def copy_file(self, src: str, dest: str) -> NoReturn:
        """Refuse: nobody copies objects."""
        raise NotImplementedError(f"{src} is not copied to {dest}.")

    def delete_dir_contents(self, path: str, missing_dir_ok: bool) -> NoReturn:
        """Refuse: nobody empties directories."""
        raise NotImplementedError(path)

    def delete_root_dir_contents(self) -> NoReturn:
        """Refuse: a bucket is not emptied."""
        raise NotImplementedError(self._bucket)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def _info(self, path: str) -> fs.FileInfo:
        try:
            with self._naming(path):
                found = obstore.head(self._store, self._key(path))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)
        return fs.FileInfo(path, fs.FileType.File, size=found["size"])

    def _below(self, selector: fs.FileSelector) -> Iterator[tuple[str, int]]:
        directory = selector.base_dir.rstrip("/")
        prefix = self._key(directory)
        with self._naming(directory):
            found: list[Any] = []
            if selector.recursive:
                for some in obstore.list(self._store, prefix, chunk_size=_LISTED):
                    found += some
            else:
                found += obstore.list_with_delimiter(self._store, prefix)["objects"]
        for each in found:
            if each["path"] != prefix:  # Hadoop marks a directory by an empty object of its name
                yield f"{self._bucket}/{each['path']}", each["size"]

    def _key(self, path: str) -> str:
        return path.removeprefix(self._bucket).strip("/")

    @contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        """Turn what obstore raises into Python's own errors of files."""
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(f"{self._kind}://{path} is missing") from None
        except AlreadyExistsError:
            raise FileExistsError(f"{self._kind}://{path} is there already") from None
        except (PermissionDeniedError, UnauthenticatedError) as denied:
            raise PermissionError(_first_line(denied)) from None
        except BaseError as away:
            raise OSError(_first_line(away)) from None


def _s3_store(bucket: str, access: StoreAccess) -> ObjectStore:
    def said(name: str) -> str:
        return access.s3(bucket, name)

    settings: dict[str, Any] = {
        "access_key_id": said("access.key"),
        "secret_access_key": said("secret.key"),
        "session_token": said("session.token"),
        "region": said("endpoint.region"),
    }
    given = {name: value for name, value in settings.items() if value}
    plain = said("connection.ssl.enabled") == "false"
    if endpoint := said("endpoint"):
        if "://" not in endpoint:
            endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        given["endpoint"] = endpoint
    return S3Store(
        bucket,
        **given,
        virtual_hosted_style_request=said("path.style.access") != "true",
        **_patience(said("connection.timeout"), plain=given.get("endpoint", "").startswith("http://")),
    )


def _gcs_store(bucket: str, access: StoreAccess) -> ObjectStore:
    settings = _patience()
    if file := access.get("fs.gs.auth.service.account.json.keyfile"):
        settings["service_account"] = file
    return GCSStore(bucket, **settings)


def _azure_store(place: str, access: StoreAccess) -> ObjectStore:
    container, _, host = place.partition("@")
    settings = _patience()
    if key := access.get(f"fs.azure.account.key.{host}") or access.get("fs.azure.account.key"):
        settings["account_key"] = key
    return AzureStore(container, account_name=host.partition(".")[0], **settings)


def _patience(silent: str = "", *, plain: bool = False) -> dict[str, Any]:
    """Return the settings of obstore that say how long to wait for a store, and how often to ask.

    ``silent`` is ``fs.s3a.connection.timeout``; empty for the default.
    """
    patience = _duration(silent) if silent else _SILENT
    return {
        "client_options": {
            "connect_timeout": min(patience, _CONNECT),
            "read_timeout": patience,
            "timeout": 30 * patience,
            "allow_http": plain,
        },
        "retry_config": {"max_retries": 4, "retry_timeout": patience},
    }


def _duration(text: str) -> timedelta:
    """Return a duration as Hadoop writes it: ``5000``, ``5s`` or ``2m``."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise SettingsError(
            f"fs.s3a.connection.timeout is {text!r}: write it like 5000 (milliseconds) or 5s."
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
