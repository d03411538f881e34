"""What a simulated store is configured with."""

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
    """Times in milliseconds, fractions between 0 and 1; the defaults are CockroachDB's where it has one."""

    partitions: int = 8
    #: The id of the first range; that of each further one is the next.
    first_range_id: int = 1
    #: Rows that the workload writes in a second of simulated time.
    write_rate: float = 1_000.0
    nodes: int = 3
    #: Closed timestamps stay so far behind the leaseholder's clock (kv.closed_timestamp.target_duration).
    closed_lag_ms: int = 3_000
    #: Every range publishes what is closed so often (kv.rangefeed.closed_timestamp_refresh_interval).
    heartbeat_ms: int = 3_000
    #: Clocks of two nodes differ by no more than this (``--max-offset``).
    max_offset_ms: int = 250
    #: How often every table descriptor is written again.
    descriptor_interval_ms: int = 10_000
    #: How often every range writes a periodic snapshot; 0 is never.
    snapshot_interval_ms: int = 0
    #: Intents of one chunk of a snapshot, at most.
    snapshot_chunk_intents: int = 1_000
    #: A transaction whose coordinator was silent for this long may be aborted by whoever meets it.
    txn_expiry_ms: int = 5_000
    #: Longest pause of a coordinator between two of its requests.
    request_gap_ms: int = 5
    #: Longest delay between a commit and the resolution of one of its intents.
    resolve_delay_ms: int = 50
    #: Writes of one request, and so of one Raft command, at most.
    request_writes: int = 64
    #: Share of commands that are rejected when they apply and proposed again.
    rejected_fraction: float = 0.0
    #: Share of aborted coordinators that write once more before they learn of it.
    zombie_fraction: float = 0.0
    #: Whether ops carry the version that they replace.
    prev_values: bool = True
    #: Versions of one chunk of an answer to a scan, and the bytes of their keys and values, at most; but the
    #: versions of one key stay together.
    scan_chunk_rows: int = 1_000
    scan_chunk_bytes: int = 256 << 10
    #: Longest pause between two chunks of one answer; 0 writes them all at once.
    scan_gap_ms: int = 0
    #: About how often some range is split at some key of it, two neighbours are merged, and a lease moves to
    #: another node; 0 is never.
    split_every_ms: int = 0
    merge_every_ms: int = 0
    move_lease_every_ms: int = 0
    #: About how often some table's secondary index is built, by files that no op tells of; 0 is never.
    build_index_every_ms: int = 0
    #: A range with more bytes of rows (of all versions) is split in the middle; 0 is never.
    split_bytes: int = 0
    #: A range that takes more versions in a second is split amid its last writes; 0 is never.
    split_rate: float = 0.0
    #: Two neighbours that have no more bytes together, and do not work hard, are merged; 0 is never.
    merge_bytes: int = 0
    #: Versions that were replaced so long ago are collected (gc.ttlseconds); 0 is never.
    gc_ttl_ms: int = 0
    #: Longest time that a record takes to its place in the log; those of one range keep their order.
    ship_delay_ms: int = 0
    #: About how often entries of some range are left out of the log, until a Raft snapshot; 0 is never.
    skip_every_ms: int = 0
    #: About how often some range's commands lack their logical ops, until a periodic snapshot; 0 is never.
    opless_every_ms: int = 0
    #: Share of commands whose values stand in the write batch alone.
    batch_values_fraction: float = 0.0
    #: Longest duration of either trouble.
    trouble_ms: int = 200

    @property
    def watches_ranges(self) -> bool:
        """Whether anything depends on the sizes or loads of ranges."""
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
