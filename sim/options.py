"""The options of a simulated store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tidegate.errors import SettingsError

_COUNTS: Final = (
    "partitions",
    "nodes",
    "heartbeat_ms",
    "descriptor_interval_ms",
    "snapshot_chunk_intents",
    "request_writes",
    "scan_chunk_rows",
    "scan_chunk_bytes",
    "trouble_ms",
)
_FRACTIONS: Final = ("rejected_fraction", "zombie_fraction", "batch_values_fraction")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of a store: times in milliseconds, fractions between 0 and 1.

    Where CockroachDB has the same option, the default is CockroachDB's.
    """

    partitions: int = 8
    #: The id of the first range. Each further range has the next id.
    first_range_id: int = 1
    #: Rows that the workload writes in a second of simulated time.
    write_rate: float = 1_000.0
    nodes: int = 3
    #: How far closed timestamps stay behind the leaseholder's clock (kv.closed_timestamp.target_duration).
    #: Below 0 they are ahead of it, as those of global tables are.
    closed_lag_ms: int = 3_000
    #: How often every range publishes its closed timestamp (kv.rangefeed.closed_timestamp_refresh_interval).
    heartbeat_ms: int = 3_000
    #: The most by which the clocks of two nodes differ (``--max-offset``).
    max_offset_ms: int = 250
    #: How often every table descriptor is written again.
    descriptor_interval_ms: int = 10_000
    #: How often every range writes a periodic snapshot; 0 for never.
    snapshot_interval_ms: int = 0
    #: The most intents in one chunk of a snapshot.
    snapshot_chunk_intents: int = 1_000
    #: How long a coordinator may be silent before anybody who meets its transaction may abort it.
    txn_expiry_ms: int = 5_000
    #: The longest pause of a coordinator between two of its requests.
    request_gap_ms: int = 5
    #: The longest delay between a commit and the resolution of one of its intents.
    resolve_delay_ms: int = 50
    #: The most writes in one request, and so in one Raft command.
    request_writes: int = 64
    #: The share of commands that are rejected when they apply, and then proposed again.
    rejected_fraction: float = 0.0
    #: The share of coordinators that write once more before they learn that their transaction was aborted.
    zombie_fraction: float = 0.0
    #: Whether ops carry the value that they replace.
    prev_values: bool = True
    #: The most versions in one chunk of an answer to a scan, and the most bytes of their keys and values. The
    #: versions of one key always stay together.
    scan_chunk_rows: int = 1_000
    scan_chunk_bytes: int = 256 << 10
    #: The longest pause between two chunks of one answer; 0 writes all chunks without a pause.
    scan_gap_ms: int = 0
    #: About how often a random range is split at one of its keys, two neighbours are merged, and a lease
    #: moves to another node; 0 for never.
    split_every_ms: int = 0
    merge_every_ms: int = 0
    move_lease_every_ms: int = 0
    #: About how often a table's secondary index is built, from files without ops; 0 for never.
    build_index_every_ms: int = 0
    #: A range whose rows, with all versions, have more bytes than this is split in the middle; 0 for never.
    split_bytes: int = 0
    #: A range that takes more versions than this in a second is split in the middle of its last writes; 0 for
    #: never.
    split_rate: float = 0.0
    #: Two neighbours that together have at most so many bytes, and little load, are merged; 0 for never.
    merge_bytes: int = 0
    #: How long after its replacement a version is collected (gc.ttlseconds); 0 for never.
    gc_ttl_ms: int = 0
    #: The longest delay of a record on its way to the log. Records of one range keep their order.
    ship_delay_ms: int = 0
    #: About how often a random range begins to leave entries out of the log. A Raft snapshot ends this. 0 for
    #: never.
    skip_every_ms: int = 0
    #: About how often a random range begins to write commands without logical ops. A periodic snapshot ends
    #: this. 0 for never.
    opless_every_ms: int = 0
    #: The share of commands whose values are only in the write batch.
    batch_values_fraction: float = 0.0
    #: The longest time for which a range leaves out entries, or ops.
    trouble_ms: int = 200

    @property
    def watches_ranges(self) -> bool:
        """Whether any option depends on the sizes or loads of ranges."""
        return bool(self.split_bytes or self.split_rate or self.merge_bytes)

    def __post_init__(self) -> None:
        if self.write_rate <= 0:
            raise SettingsError(f"write_rate is {self.write_rate}; it must be above 0")
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in _FRACTIONS:
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least 0 and below 1")
        if self.split_bytes and self.merge_bytes >= self.split_bytes:
            raise SettingsError(
                f"merge_bytes is {self.merge_bytes}; it must be below split_bytes ({self.split_bytes}), else "
                "what is split is merged again"
            )
