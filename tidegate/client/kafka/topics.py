"""Names and settings of the topics that tidegate reads and writes (docs/architecture.md#topics)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from tidegate.client.kafka.topic_admin import TopicSpec
from tidegate.processor.batch import StateTable

#: The time that a tombstone stays in a changelog. A local copy that is older than half of this is not used.
TOMBSTONES_KEPT_MS: Final = 7 * 24 * 3_600_000
_CHECKPOINTS_KEPT_MS: Final = 24 * 3_600_000  # partitions repeat theirs every 30 s, so this is ample
_REQUESTS_KEPT_MS: Final = 3_600_000  # an unanswered request is sent again within seconds

_COMPACT: Final = {"cleanup.policy": "compact", "delete.retention.ms": str(TOMBSTONES_KEPT_MS)}


class NamesTopics(Protocol):
    """The settings of an engine that name its topics."""

    @property
    def app_id(self) -> str: ...
    @property
    def topic_prefix(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of one application's topics."""

    app_id: str
    prefix: str

    @classmethod
    def of(cls, settings: NamesTopics) -> Topics:
        """Return the topics that the settings name."""
        return cls(settings.app_id, settings.topic_prefix)

    @property
    def log(self) -> str:
        """The log of the range store."""
        return f"{self.prefix}raftlog"

    @property
    def requests(self) -> str:
        """The topic of requests to the range store."""
        return f"{self.prefix}requests"

    @property
    def jobs(self) -> str:
        """The topic of feeds' definitions, states and progress."""
        return f"{self.app_id}-jobs"

    @property
    def control(self) -> str:
        """The topic of the messages about feeds to the log partitions."""
        return f"{self.app_id}-control"

    @property
    def control_acks(self) -> str:
        """The topic of the log partitions' answers to these messages."""
        return f"{self.app_id}-control-acks"

    @property
    def hand_offs(self) -> str:
        """The topic of claims and hand-offs between ranges in different partitions."""
        return f"{self.app_id}-handoff"

    @property
    def checkpoints(self) -> str:
        """The topic of partitions' checkpoints for the frontier agents."""
        return f"{self.app_id}-checkpoints"

    def changelogs(self) -> dict[StateTable, str]:
        """Return the changelog of each table of partition state."""
        return {table: f"{self.app_id}-{table.value}-changelog" for table in StateTable}

    @property
    def internal(self) -> set[str]:
        """The log, and every topic that the worker creates. No feed may write to one of them."""
        return {self.log, *(spec.name for spec in self.specs(1, 1))}

    def specs(self, partitions: int, checkpoint_partitions: int) -> list[TopicSpec]:
        """Return every topic that the worker creates, for a log of ``partitions`` partitions."""
        return [
            *self.shared_specs(partitions),
            TopicSpec(self.control, partitions, _COMPACT),
            TopicSpec(self.hand_offs, partitions, _COMPACT),
            TopicSpec(self.checkpoints, checkpoint_partitions, _deleted_after(_CHECKPOINTS_KEPT_MS)),
            *(TopicSpec(changelog, partitions, _COMPACT) for changelog in self.changelogs().values()),
        ]

    @property
    def jobs_spec(self) -> TopicSpec:
        """The topic of feeds' definitions, which may have to exist before any engine has run."""
        return TopicSpec(self.jobs, 1, _COMPACT)

    def shared_specs(self, partitions: int) -> list[TopicSpec]:
        """Return the topics that every engine needs."""
        return [
            TopicSpec(self.requests, partitions, _deleted_after(_REQUESTS_KEPT_MS)),
            self.jobs_spec,
            TopicSpec(self.control_acks, 1, _COMPACT),
        ]


def _deleted_after(retention_ms: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(retention_ms)}
