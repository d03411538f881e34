"""Keeps records that caused an exception that nobody foresaw, in the query's checkpoint directory.

The query's driver writes them (docs/security.md#records-that-are-kept-aside).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyarrow import fs

from tidegate.client.refused_records import DIRECTORY, RefusedRecords
from tidegate.processor.refused import Source
from tidegate.spark.changefeed.checkpoint import OURS
from tidegate.spark.changefeed.query import Query
from tidegate.spark.platform.file_systems import opened
from tidegate.spark.platform.store_access import StoreAccess
from tidegate.spark.platform.whole_files import remove_file, write_whole

#: The name of a file while it is written. The next writer replaces what a dead one left.
_UNFINISHED: Final = ".unfinished"


class RemoteFiles:
    """A directory of any file system. See ``tidegate.client.refused_records.RefusedFiles``."""

    def __init__(self, filesystem: fs.FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory

    @classmethod
    def of_checkpoint(cls, uri: str, access: StoreAccess | None = None) -> RemoteFiles:
        """Return the files of the query with this checkpoint directory; nothing is created.

        Raises ``SettingsError`` for a URI that cannot be used.
        """
        return cls.below(f"{uri.rstrip('/')}/{OURS}", access or StoreAccess.of_environment())

    @classmethod
    def below(cls, root: str, access: StoreAccess) -> RemoteFiles:
        """Return the files below the directory of a query's state."""
        filesystem, path = opened(root, access)
        return cls(filesystem, f"{path}/{DIRECTORY}")

    def sizes(self) -> Mapping[str, int]:
        """Return the names of the files with their sizes in bytes."""
        found = self._filesystem.get_file_info(fs.FileSelector(self._directory, allow_not_found=True))
        return {each.base_name: each.size for each in found if each.type == fs.FileType.File}

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._filesystem.open_input_stream(f"{self._directory}/{name}") as stream:
            return bytes(stream.read())

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole."""
        self._filesystem.create_dir(self._directory)
        unfinished = f"{self._directory}/{_UNFINISHED}"
        write_whole(self._filesystem, f"{self._directory}/{name}", content, unfinished)

    def remove(self, name: str) -> None:
        """Remove a file."""
        remove_file(self._filesystem, f"{self._directory}/{name}")


def refused_records(query: Query) -> RefusedRecords:
    """Return the refused records that a query's driver keeps, in the directory of the query's state.

    The directory is opened for each record.
    """
    topics = {Source.LOG: query.log, Source.ROW: query.log}
    return RefusedRecords(lambda: RemoteFiles.below(query.root, query.access), topics)
