"""The checkpoint directory of a query: which query it belongs to, and whether its two halves fit together.

    <checkpoint>/spark/               Spark's: offsets/<batch> before a batch, commits/<batch> after it
    <checkpoint>/tidegate/query.json  the application and the topics: stored before Spark begins
    <checkpoint>/tidegate/            the rest of tidegate's half: see `ledger`, `refused_files`, and
                                      `tidegate.spark.platform.state_files`

All of this is checked before Spark starts. A directory that is refused is not changed.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pyarrow import fs

from tidegate.access.directory_uri import directory_uri
from tidegate.access.private_files import make_private_uri
from tidegate.changefeed.definition.stored_fields import number_of, plain_whole
from tidegate.errors import SettingsError, StateError, StoreAway, TopologyError, brief
from tidegate.spark.changefeed.ledger import Ledger
from tidegate.spark.platform import checked_json
from tidegate.spark.platform.file_systems import opened
from tidegate.spark.platform.state_files import BUILD_ANEW, StateFiles
from tidegate.spark.platform.store_access import StoreAccess
from tidegate.spark.platform.whole_files import TORN, awaited, keeps_the_first, read_whole, write_first

#: The name of tidegate's half.
OURS: Final = "tidegate"
_IDENTITY: Final = "query.json"
_LOOK_AGAIN_S: Final = 0.1
_NOTHING_DONE: Final = "Nothing was read or written."

_log = logging.getLogger("tidegate.spark")


@dataclass(frozen=True, slots=True)
class QueryIdentity:
    """The query that a checkpoint directory belongs to.

    The ids are Kafka's: a topic that is created again under the same name has another id. ``jobs_id`` is
    empty before the jobs topic is created.
    """

    app_id: str
    log: str
    log_id: str
    partitions: int
    jobs_id: str


class Checkpoint(NamedTuple):
    """A checkpoint directory: ``uri`` is its name for Spark, ``path`` its place on ``filesystem`` for
    tidegate.
    """

    uri: str
    filesystem: fs.FileSystem
    path: str

    @property
    def spark(self) -> str:
        """The name of Spark's half for Hadoop. For Hadoop ``%20`` is three characters of a name, no space."""
        return f"{unquote(self.uri)}/spark"

    @property
    def root(self) -> str:
        """The URI of tidegate's half."""
        return f"{self.uri}/{OURS}"

    @property
    def identity_uri(self) -> str:
        """The URI of the file that says which query has the directory. It is there before Spark starts."""
        return f"{self.root}/{_IDENTITY}"

    @property
    def ours(self) -> str:
        """The path of tidegate's half on the file system."""
        return f"{self.path}/{OURS}"

    def require(self, identity: QueryIdentity) -> bool:
        """Return ``True`` if this query has used the directory and can go on; ``False`` if it is unused.

        Raises ``StateError`` or ``TopologyError``, which say what to do, when the query cannot go on, and
        ``SettingsError`` when the directory cannot be read.
        """
        try:
            return self._is_used_by(identity)
        except (OSError, StoreAway) as error:
            raise SettingsError(
                f"The checkpoint directory {self.uri} cannot be read ({brief(str(error))}): see that its "
                "file system answers and lets this user in (docs/spark-cluster.md#checkpoint-directories), "
                "or name another directory by --checkpoint."
            ) from None

    def _is_used_by(self, identity: QueryIdentity) -> bool:
        spark = _SparkHalf.of(self)
        stored = self._identity()
        if stored is None:
            self._require_unused(spark)
            return False
        _require_same(self.uri, stored, identity)
        self._require_together(spark)
        return True

    def claim(self, identity: QueryIdentity) -> None:
        """Store that the directory belongs to this query.

        Raises ``SettingsError`` when it cannot be written, and ``StateError`` when another query was faster.
        """
        try:
            make_private_uri(self.uri)
            self.filesystem.create_dir(self.ours)
            stored = write_first(self.filesystem, self._query_path, checked_json.dump(asdict(identity)))
            is_kept = keeps_the_first(self.filesystem, self._query_path, stored)
        except OSError as error:
            raise SettingsError(
                f"The checkpoint directory {self.uri} cannot be written ({brief(str(error))}): let this "
                "user write there, or name another one by --checkpoint."
            ) from None
        _require_same(self.uri, _read_identity(stored, self._query_path), identity)
        if not is_kept:
            _log.warning(
                "The store of %s ignores the condition of a put (If-None-Match). Nothing keeps two drivers "
                "of this query apart there: run only one at a time.",
                self.uri,
            )

    def wait_for_commit(self, batch: int | None, patience_s: float) -> None:
        """Wait until Spark has committed the batch, for ``patience_s`` seconds at most.

        Does not wait if ``batch`` is ``None``.
        If Spark has not committed it by then, Spark runs the batch again.
        """
        given_up_at = time.monotonic() + patience_s
        while batch is not None and time.monotonic() < given_up_at:
            with suppress(OSError):
                finished = _SparkHalf.of(self).finished
                if finished is not None and finished >= batch:
                    return
            time.sleep(_LOOK_AGAIN_S)

    def log_ends(self, batch: int, log: str) -> dict[int, int]:
        """Return where a batch that Spark has begun ends in the log, by partition.

        Raises ``StoreAway``, and ``StateError`` for a file in a form that no known version of Spark writes.
        """
        path = f"{self.path}/spark/offsets/{batch}"
        with awaited(path):
            stored = read_whole(self.filesystem, path) or b""
        try:
            # The lines are a version, facts of the batch, and the offsets of each source. Here there is one.
            ends: dict[str, int] = json.loads(stored.decode().splitlines()[2])[log]
            return {number_of(partition): plain_whole(end, "an end") for partition, end in ends.items()}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise StateError(
                f"{path} of Spark does not say in the known form where the batch ends ({brief(repr(error))})."
                " The batch is not done, and its next run writes the same rows. Use a version of Spark that "
                "docs/spark.md names."
            ) from None

    @property
    def _query_path(self) -> str:
        return f"{self.ours}/{_IDENTITY}"

    def _identity(self) -> QueryIdentity | None:
        stored = read_whole(self.filesystem, self._query_path)
        return None if stored is None else _read_identity(stored, self._query_path)

    def _require_unused(self, spark: _SparkHalf) -> None:
        left = self.filesystem.get_file_info(fs.FileSelector(self.ours, allow_not_found=True))
        ours = [info.base_name for info in left if not info.base_name.endswith(TORN)]
        if spark.begun is not None and not ours:
            raise StateError(
                f"The checkpoint directory {self.uri} has Spark's half (spark/) and not tidegate's "
                f"(tidegate/), and neither is of use without the other. {_NOTHING_DONE} Put tidegate/ back "
                f"as it was, or {BUILD_ANEW}."
            )
        if spark.begun is not None or ours:
            raise StateError(
                f"{self._query_path} is missing, so nobody can say which query the checkpoint directory "
                f"belongs to. {_NOTHING_DONE} Put the file back, or {BUILD_ANEW}."
            )

    def _require_together(self, spark: _SparkHalf) -> None:
        newest = _newest(self.filesystem, f"{self.ours}/batches")
        if spark.begun is None:
            if newest is not None:
                raise StateError(
                    f"The checkpoint directory {self.uri} has tidegate's half (tidegate/) and not Spark's "
                    f"(spark/), and neither is of use without the other. {_NOTHING_DONE} Put spark/ back as "
                    f"it was, or {BUILD_ANEW}."
                )
            return
        if newest is not None and newest > spark.begun:
            raise StateError(
                f"The halves of the checkpoint directory {self.uri} are not of the same time: tidegate/ "
                f"knows of batch {newest}, and spark/ of none behind {spark.begun}. {_NOTHING_DONE} Put both "
                f"back as they were together, or {BUILD_ANEW}."
            )
        account = Ledger(self.filesystem, self.ours).account(spark.to_run - 1)
        for partition, head in account.heads.items():
            StateFiles(self.filesystem, self.ours, partition).require(head)


class _SparkHalf(NamedTuple):
    """The progress of Spark itself: the batch that it began last, and the one that it finished last.

    ``None`` means that there is none.
    """

    begun: int | None
    finished: int | None

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> _SparkHalf:
        root = f"{checkpoint.path}/spark"
        return cls(
            _newest(checkpoint.filesystem, f"{root}/offsets"),
            _newest(checkpoint.filesystem, f"{root}/commits"),
        )

    @property
    def to_run(self) -> int:
        """The batch that Spark runs next, which it may have begun before."""
        assert self.begun is not None
        return self.begun + 1 if self.finished == self.begun else self.begun


def checkpoint_at(named: str, access: StoreAccess) -> Checkpoint:
    """Return the directory of a path or URI, without looking into it.

    Raises ``SettingsError`` for a URI that cannot be used, and for a file system that cannot be opened here.
    """
    uri = directory_uri(named)
    filesystem, path = opened(uri, access)
    return Checkpoint(uri, filesystem, path)


def _newest(filesystem: fs.FileSystem, directory: str) -> int | None:
    """Return the highest number among the names of a directory's files."""
    found = filesystem.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    stems = (PurePosixPath(info.path).name.removesuffix(".json") for info in found)
    return max((int(stem) for stem in stems if stem.isdecimal()), default=None)


def _read_identity(stored: bytes, path: str) -> QueryIdentity:
    def read(body: dict[str, Any]) -> QueryIdentity:
        return QueryIdentity(**{each.name: body[each.name] for each in fields(QueryIdentity)})

    advice = (
        "Nobody can say which query the checkpoint directory belongs to. "
        f"{_NOTHING_DONE} Put the file back, or {BUILD_ANEW}."
    )
    return checked_json.load(stored, path, read, advice)


def _require_same(uri: str, then: QueryIdentity, now: QueryIdentity) -> None:
    if then.app_id != now.app_id:
        raise StateError(
            f"The checkpoint directory {uri} belongs to the application {then.app_id}, and this query runs "
            f"{now.app_id}. {_NOTHING_DONE} Name that application by --app-id, or a directory of this one's "
            "own by --checkpoint."
        )
    if then.log != now.log:
        raise StateError(
            f"The checkpoint directory {uri} was filled from the log {then.log}, and this query reads "
            f"{now.log}. {_NOTHING_DONE} Name that log by --topic-prefix, or a new directory by --checkpoint "
            "and a new application by --app-id."
        )
    if then.log_id != now.log_id:
        raise StateError(
            f"The log {now.log} was deleted and created again since the checkpoint directory {uri} was "
            f"begun: its id is {now.log_id}, and was {then.log_id}. Its offsets mean other records. "
            f"{_NOTHING_DONE} Bring the old topic back, or start another application (--app-id) on a new "
            "directory (--checkpoint)."
        )
    if then.partitions != now.partitions:
        raise TopologyError(
            f"The log {now.log} has {now.partitions} partitions, and had {then.partitions} when the "
            f"checkpoint directory {uri} was begun: ranges are found by that number, so it cannot change "
            f"under an application. {_NOTHING_DONE} Start another application (--app-id) on a new directory "
            "(--checkpoint)."
        )
    if then.jobs_id != now.jobs_id:
        raise StateError(
            f"The topic {now.app_id}-jobs was deleted"
            f"{' and created again' if now.jobs_id else ''} since the checkpoint directory {uri} was begun, "
            f"so its state has feeds that nobody can drop any more. {_NOTHING_DONE} Bring the old topic "
            f"back, or {BUILD_ANEW}."
        )
