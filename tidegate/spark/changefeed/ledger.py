"""The driver's files about a query: the messages of each round, and the account of each batch.

    <root>/rounds/<round>.json   what the round tells partitions, stored before it runs
    <root>/batches/<batch>.json  stored as the last thing of a batch: which files hold the partitions' states

A batch that runs again finds the account of the batch before it, and what its rounds told partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyarrow import fs

from tidegate.errors import StateError
from tidegate.spark.changefeed.rounds import Round, RoundId, read_round
from tidegate.spark.platform import checked_json
from tidegate.spark.platform.state_files import BUILD_ANEW
from tidegate.spark.platform.whole_files import awaited, read_replaced, remove_file, write_first, write_whole

_KEPT_BATCHES: Final = 2  # Spark may run the last batch again, from the account before it


@dataclass(frozen=True, slots=True)
class Account:
    """The state of a query after a batch.

    ``heads`` are the names of the files that hold the partitions' states. ``controls`` is how many messages
    about feeds the query has told so far, ``exchanges`` how many claims and hand-offs each partition was
    told.
    """

    heads: dict[int, str] = field(default_factory=dict)
    controls: int = 0
    exchanges: dict[int, int] = field(default_factory=dict)


class Ledger:
    """The stored accounts and rounds of a query, below ``root``, a directory of ``filesystem``.

    Every method raises ``StoreAway`` when the file system does not answer, and may be called again then.
    """

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._filesystem = filesystem
        self._rounds = f"{root}/rounds"
        self._batches = f"{root}/batches"
        for directory in (self._rounds, self._batches):
            with awaited(directory):
                filesystem.create_dir(directory)

    def account(self, batch: int) -> Account:
        """Return the account of ``batch``; an empty one for a batch below 0.

        Raises ``StateError`` when the account is missing or damaged.
        """
        if batch < 0:
            return Account()
        path = self._batch_path(batch)
        with awaited(path):
            stored = read_replaced(self._filesystem, path)
        if stored is None:
            raise StateError(
                f"{path} is missing: what tidegate keeps in the checkpoint directory is not of the same time "
                "as what Spark keeps there. Nothing was emitted. Put both back as they were together, or "
                f"{BUILD_ANEW}."
            )
        return _account(stored, path)

    def close_batch(self, batch: int, account: Account) -> None:
        """Store the account of a finished batch, and remove the files of old batches."""
        body = {
            "heads": {str(partition): name for partition, name in sorted(account.heads.items())},
            "controls": account.controls,
            "exchanges": {str(partition): count for partition, count in sorted(account.exchanges.items())},
        }
        path = self._batch_path(batch)
        with awaited(path):
            write_whole(self._filesystem, path, checked_json.dump(body))
            self._forget(batch - _KEPT_BATCHES)

    def told(self, round_id: RoundId) -> Round | None:
        """Return the round as an earlier run of its batch stored it, or ``None``."""
        path = self._round_path(round_id)
        with awaited(path):
            stored = read_replaced(self._filesystem, path)
        return None if stored is None else read_round(stored, path)

    def tell_first(self, round_: Round) -> Round:
        """Store the messages of a round, unless they are stored already. Returns the stored round.

        Another driver of the query may have stored it. Both run the same round, so both write the same rows.
        """
        path = self._round_path(round_.id)
        with awaited(path):
            stored = write_first(self._filesystem, path, round_.to_bytes())
        return read_round(stored, path)

    def tell(self, round_: Round) -> None:
        """Store the messages of a round, in place of its former ones."""
        path, content = self._round_path(round_.id), round_.to_bytes()
        with awaited(path):
            # If the file is missing, an unfinished one may be the only copy. It must not be written over.
            if write_first(self._filesystem, path, content) != content:
                write_whole(self._filesystem, path, content)

    def _forget(self, batch: int) -> None:
        oldest = RoundId(batch + 1, 0).name
        for directory, before in ((self._rounds, oldest), (self._batches, oldest[:10])):
            for info in self._filesystem.get_file_info(fs.FileSelector(directory)):
                if info.base_name.removesuffix(".json") < before:
                    remove_file(self._filesystem, info.path)

    def _round_path(self, round_id: RoundId) -> str:
        return f"{self._rounds}/{round_id.name}.json"

    def _batch_path(self, batch: int) -> str:
        return f"{self._batches}/{batch:010d}.json"


def _account(stored: bytes, path: str) -> Account:
    def read(body: dict[str, Any]) -> Account:
        return Account(
            {int(partition): name for partition, name in body["heads"].items()},
            body["controls"],
            {int(partition): count for partition, count in body["exchanges"].items()},
        )

    return checked_json.load(stored, path, read, f"Nothing was emitted. Put it back, or {BUILD_ANEW}.")
