"""The driver's account of a query: rounds before they run, and what is true once a batch is done.

    <root>/rounds/<round>.json   what the round is told, stored before it runs
    <root>/batches/<batch>.json  stored as the last thing of a batch: which files hold the partitions' states

A batch that is run again finds the account of the one before it, and the rounds that it was told already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pyarrow import fs

from tidegate.errors import StateError
from tidegate.spark.changefeed.rounds import Round, RoundId, read_round
from tidegate.spark.platform import checked_json
from tidegate.spark.platform.state_files import BUILD_ANEW
from tidegate.spark.platform.whole_files import read_whole, write_whole

_KEPT_BATCHES: Final = 2  # Spark may run the last one again, from the one before it


@dataclass(frozen=True, slots=True)
class Account:
    """Where a query stands after a batch.

    ``heads`` are the names of the files with the partitions' states, ``told`` how many messages about feeds
    and how many exchanges each partition was told so far.
    """

    heads: dict[int, str] = field(default_factory=dict)
    controls: int = 0
    exchanges: dict[int, int] = field(default_factory=dict)


class Ledger:
    """The account below ``root``, a directory of ``filesystem``."""

    def __init__(self, filesystem: fs.FileSystem, root: str) -> None:
        self._filesystem = filesystem
        self._rounds = f"{root}/rounds"
        self._batches = f"{root}/batches"
        for directory in (self._rounds, self._batches):
            filesystem.create_dir(directory)

    def account(self, batch: int) -> Account:
        """What was true after ``batch``; nothing yet for one below 0. Raises ``StateError``."""
        if batch < 0:
            return Account()
        path = self._batch_path(batch)
        stored = read_whole(self._filesystem, path)
        if stored is None:
            raise StateError(
                f"{path} is missing: what tidegate keeps in the checkpoint directory is not of the same time "
                "as what Spark keeps there. Nothing was emitted. Put both back as they were together, or "
                f"{BUILD_ANEW}."
            )
        return _account(stored, path)

    def close_batch(self, batch: int, account: Account) -> None:
        """Store the account of a batch that is done, and forget the rounds of old ones."""
        body = {
            "heads": {str(partition): name for partition, name in sorted(account.heads.items())},
            "controls": account.controls,
            "exchanges": {str(partition): count for partition, count in sorted(account.exchanges.items())},
        }
        write_whole(self._filesystem, self._batch_path(batch), checked_json.dump(body))
        self._forget(batch - _KEPT_BATCHES)

    def told(self, round_id: RoundId) -> Round | None:
        """What the round was told by an earlier run of its batch."""
        path = self._round_path(round_id)
        stored = read_whole(self._filesystem, path)
        return None if stored is None else read_round(stored, path)

    def tell(self, round_: Round) -> None:
        """Store what a round is told."""
        write_whole(self._filesystem, self._round_path(round_.id), round_.to_bytes())

    def _forget(self, batch: int) -> None:
        oldest = RoundId(batch + 1, 0).name
        for directory, before in ((self._rounds, oldest), (self._batches, oldest[:10])):
            for info in self._filesystem.get_file_info(fs.FileSelector(directory)):
                if info.base_name.removesuffix(".json") < before:
                    self._filesystem.delete_file(info.path)

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
