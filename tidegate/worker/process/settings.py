"""The worker's settings: one typed object, validated once at start.

Every field is read from the environment variable ``TIDEGATE_<FIELD>``; ``tidegate worker --<field>``
overrides it unless it is a secret. Times are milliseconds, sizes bytes, as the names say.
"""

from __future__ import annotations

import enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from tidegate.access.destinations import Destinations
from tidegate.access.destinations_file import read_destinations
from tidegate.access.http_access import require_protected, usable_token
from tidegate.access.output_namespace import OutputNamespace
from tidegate.changefeed.text.surrogates import is_utf8
from tidegate.errors import SettingsError
from tidegate.kernel.kernel_mode import DEFAULT, KernelMode
from tidegate.worker.process.settings_faults import fault_text

PositiveInt = Annotated[int, Field(ge=1)]


class LogFormat(enum.Enum):
    """The form of log lines: text for people, or one JSON object a line."""

    CONSOLE = "console"
    JSON = "json"


class SecurityProtocol(enum.Enum):
    """The way to connect to Kafka, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def authenticated(self) -> bool:
        """Whether the client logs in by SASL."""
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Settings(BaseSettings):
    """Settings of one worker process. Those marked *group* must be the same on all workers of an app."""

    model_config = SettingsConfigDict(env_prefix="TIDEGATE_", frozen=True, extra="forbid")

    # ---- where things are
    bootstrap_servers: str = Field(
        default="127.0.0.1:9092",
        min_length=1,
        description="Kafka brokers to begin with: host:port, comma-separated.",
    )
    app_id: str = Field(
        default="tidegate",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="Group. Application id: consumer group, prefix of internal topics and transactional ids. "
        "Danger: another id starts from nothing and writes every row again.",
    )
    topic_prefix: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9._-]{0,100}$",
        description="Group. Prefix of the log topic (<prefix>raftlog) and of the requests topic.",
    )
    data_dir: Path = Field(
        default=Path("data"),
        description="Directory of the local copies of state, one worker process at a time. It may be deleted "
        "while no worker runs: state is then read from the changelog topics.",
    )
    instance_id: str | None = Field(
        default=None,
        description="Name of this worker in the group, kept over restarts (KIP-345): a restart within "
        "session_timeout_ms then moves no partition. Danger: two workers with one name shut each other out, "
        "and a worker that stops does not leave the group: its partitions wait for its session to expire.",
    )

    # ---- throughput and limits
    batch_records: PositiveInt = Field(
        default=5_000,
        description="Records of the log in one step, at most. More records mean fewer transactions and later "
        "rows.",
    )
    inflight_batches: PositiveInt = Field(
        default=3, description="Batches of a partition whose rows are not all acknowledged, at most."
    )
    queued_batches: PositiveInt = Field(
        default=4,
        description="Fetched batches of a partition that wait for their step before fetching pauses.",
    )
    backlog_memory_bytes: Annotated[int, Field(ge=0)] = Field(
        default=64 << 20,
        description="Memory for the backlogs of this worker's ranges, all together: entries that ranges have "
        "not applied yet. The rest lies in files under data_dir.",
    )
    backlog_bytes: PositiveInt = Field(
        default=8 << 30,
        description="Bytes of the log that a partition keeps for ranges that wait for hand-offs or for a "
        "scan, in memory and on disk. Danger: beyond it the range with most of them is quarantined, and its "
        "next Snapshot heals it by a scan of the source.",
    )
    feed_memory_bytes: PositiveInt = Field(
        default=64 << 20,
        description="Memory for rows (keys and values) of one feed in one partition that wait for their "
        "sink. Beyond it the partition waits; after a quarter of sink_stall_ms the feed is detached.",
    )
    feed_spool_bytes: Annotated[int, Field(ge=0)] = Field(
        default=1 << 30,
        description="Disk for rows of one detached feed in one partition, in files under data_dir without "
        "names. Danger: beyond it the spool is given up, and the feed catches up by scans of the source.",
    )
    catch_up_scans: PositiveInt = Field(
        default=4,
        description="How many scans of the source a partition has under way for feeds that start in the "
        "past, start with a scan, or miss versions. Danger: each is work for the source, and its rows go "
        "through the log.",
    )
    catch_up_memory_bytes: PositiveInt = Field(
        default=64 << 20,
        description="Memory for versions of one partition that are committed during those scans, and wait "
        "for them. Versions beyond it are scanned for again.",
    )
    step_memory_bytes: PositiveInt = Field(
        default=64 << 20,
        description="About how many bytes of rows, of all feeds, one step of a partition makes. Then it "
        "ends, and the next step takes the rest of its batch. Danger: several steps of a partition are in "
        "flight.",
    )
    commit_threads: PositiveInt = Field(
        default=8, description="Threads for transactions: that many partitions commit at the same time."
    )
    max_record_bytes: PositiveInt = Field(
        default=1_000_000,
        description="Largest row that is produced, and the measure for records of state. A larger row fails "
        "its feed with a sentence naming it, unless the feed has on_oversize. Not above the broker's "
        "message.max.bytes. Records about feeds may have 1000000 bytes whatever it is.",
    )
    intent_memory_bytes: PositiveInt = Field(
        default=128 << 20,
        description="About how much memory open transactions of all partitions take. Those beyond it go to "
        "disk (<data_dir>/<app_id>/intents-spill), 70 bytes each. Danger: an op on one of these takes 20 us "
        "more.",
    )
    linger_ms: Annotated[int, Field(ge=0)] = Field(
        default=5, description="How long a row may wait for others to share a request."
    )
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = Field(
        default="lz4", description="Compression of rows on their topics."
    )

    # ---- topics
    output_partitions: PositiveInt = Field(
        default=4,
        description="Partitions of an output topic that tidegate creates; fixed for the feed's epoch.",
    )
    output_topics: str = Field(
        default="",
        description="Group. Topics that feeds may write to: patterns with * for any letters, commas between "
        "them. Empty: all but those that applications keep for themselves. Danger: a feed with another topic "
        "fails when it begins, and when it is moved.",
    )
    checkpoint_partitions: PositiveInt = Field(
        default=1,
        description="Group. Partitions of the checkpoints topic: that many frontier agents share the feeds.",
    )
    replication_factor: int = Field(
        default=-1, ge=-1, description="Replicas of topics that tidegate creates; -1 is the broker's default."
    )

    kernel: KernelMode = Field(
        default=DEFAULT,
        description="Native code for the step: off, on, or check, which runs Python as well and ends the "
        "process where they differ.",
    )

    # ---- times
    push_enabled: bool = Field(
        default=True,
        description="Group. Whether old transactions are pushed at all. Danger: without it a transaction "
        "that its client forgot holds markers back until the source ends it by itself.",
    )
    push_age_ms: PositiveInt = Field(
        default=10_000, description="Group. A transaction open for longer, by the log's time, is pushed."
    )
    push_repeat_ms: PositiveInt = Field(
        default=5_000,
        description="Group. An unanswered push is sent again after this much of the log's time.",
    )
    stall_alarm_ms: PositiveInt = Field(
        default=60_000,
        description="Alarm when a row has waited longer for its acknowledgement; rows never expire.",
    )
    sink_stall_ms: PositiveInt = Field(
        default=15_000,
        description="How long a batch, and all feeds with it, may wait for the acknowledgement of a feed's "
        "rows. Then the feed is detached. A feed that was detached again and again gets up to six times as "
        "long, while its sink acknowledges rows. It is at most half of drain_timeout_ms; if that half is "
        "less than the default, the half is the default. Danger: if it is too short, a sink that is slow but "
        "working makes its feeds fall behind.",
    )
    standby_refresh_ms: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="How often this worker updates its copies of partitions that other workers have. Then it "
        "reads little when it takes one over. 0: it has no such copies. Danger: this worker then reads all "
        "state and keeps it on its disk.",
    )
    session_timeout_ms: Annotated[int, Field(ge=1_000, le=1_800_000)] = Field(
        default=10_000, description="A worker that is silent for longer loses its partitions to the others."
    )
    drain_timeout_ms: Annotated[int, Field(ge=2)] = Field(
        default=30_000,
        description="How long a revoked partition, or a stopping worker, may take to finish its batches in "
        "flight. Afterwards the process ends, and its successor repeats that work. Half of it is for sinks: "
        "feeds whose rows are not acknowledged by then are detached.",
    )

    # ---- operation
    metrics_host: str = Field(
        default="127.0.0.1",
        description="Address of /metrics, /health, /status and /ranges. One that others reach needs TLS, or "
        "metrics_plaintext. Danger: whoever asks there sees names of tables, feeds, topics, and keys.",
    )
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=0,
        description="Port of these pages; 0 takes a free one, and writes it to "
        "<data_dir>/<app_id>/worker.json.",
    )
    metrics_allowed_hosts: str = Field(
        default="",
        description="Names by which clients may ask there, comma-separated, besides the bound address (on "
        "loopback: localhost and all loopback IP addresses; on 0.0.0.0: any IP address). Danger: if somebody "
        "else decides to which address a name resolves, a web page in a browser can read the answers.",
    )
    metrics_token: SecretStr | None = Field(
        default=None,
        description="The token that clients must send there, as Authorization: Bearer <token>. /health needs "
        "none. Without a token everybody who reaches the port may ask.",
    )
    metrics_tls_certificate: Path | None = Field(
        default=None, description="PEM file of the certificate of these pages; it needs metrics_tls_key."
    )
    metrics_tls_key: Path | None = Field(
        default=None, description="PEM file of its private key, without a password."
    )
    metrics_plaintext: bool = Field(
        default=False,
        description="Serve these pages without TLS on an address that others reach. Danger: whoever reads "
        "the network sees them, and the token.",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="The least severe log line that is written."
    )
    log_format: LogFormat = Field(default=LogFormat.CONSOLE, description="Log lines for people, or JSON.")

    # ---- security
    security_protocol: SecurityProtocol = Field(
        default=SecurityProtocol.PLAINTEXT,
        description="How to talk to Kafka. Danger: PLAINTEXT is readable by all.",
    )
    ssl_ca_location: Path | None = Field(
        default=None, description="PEM file of the authorities that sign the brokers' certificates."
    )
    ssl_certificate_location: Path | None = Field(
        default=None, description="PEM file of this client's certificate."
    )
    ssl_key_location: Path | None = Field(default=None, description="PEM file of this client's private key.")
    ssl_key_password: SecretStr | None = Field(default=None, description="Password of that key.")
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="How to log in."
    )
    secrets_dir: Path | None = Field(
        default=None,
        description="Directory of secrets that feeds name by secret://NAME. Each has a file NAME, and a file "
        "NAME.for with the hosts that may get it. Danger: whoever creates feeds may use all of them, at "
        "those hosts.",
    )
    secrets_file: Path | None = Field(
        default=None,
        description="TOML file of such secrets: a table NAME for each, with value and for. Danger: as "
        "secrets_dir.",
    )
    destinations_file: Path | None = Field(
        default=None,
        description="TOML file of the other Kafka clusters that feeds may write to, with the login for each, "
        "and of the schema registries that they may use (docs/security.md#other-clusters). Without it feeds "
        "write to the worker's own cluster alone, and use no registry.",
    )
    sasl_username: str | None = Field(default=None, description="User to log in as.")
    sasl_password: SecretStr | None = Field(default=None, description="Password of that user.")

    @model_validator(mode="after")
    def _login_is_complete(self) -> Self:
        if self.security_protocol.authenticated and (
            self.sasl_username is None or self.sasl_password is None
        ):
            raise ValueError(f"{self.security_protocol.value} needs sasl_username and sasl_password")
        return self

    @model_validator(mode="after")
    def _destinations_can_be_read(self) -> Self:
        try:
            _ = self.destinations
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _status_is_protected(self) -> Self:
        if (self.metrics_tls_certificate is None) != (self.metrics_tls_key is None):
            raise ValueError("metrics_tls_certificate and metrics_tls_key belong together: give both or none")
        tls = self.metrics_tls_certificate is not None
        try:
            if self.metrics_token is not None:
                usable_token(self.metrics_token.get_secret_value(), "metrics_token")
            require_protected(self.metrics_host, tls=tls, plaintext=self.metrics_plaintext)
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return self

    @field_validator("*", mode="before")
    @classmethod
    def _is_utf8(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and not is_utf8(value):
            raise ValueError(f"{info.field_name} is no UTF-8")
        return value

    @model_validator(mode="after")
    def _output_topics_are_patterns(self) -> Self:
        try:
            _ = self.output_namespace
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _sinks_stall_within_a_drain(self) -> Self:
        if "sink_stall_ms" not in self.model_fields_set:
            default_ms = min(self.sink_stall_ms, self.drain_sinks_ms)
            object.__setattr__(self, "sink_stall_ms", default_ms)  # nobody has read the frozen field yet
        if self.sink_stall_ms > self.drain_sinks_ms:
            raise ValueError(
                f"sink_stall_ms is {self.sink_stall_ms}, but must be at most half of drain_timeout_ms "
                f"({self.drain_timeout_ms}): a worker that lets go of its partitions would end before it "
                "stops waiting for a sink"
            )
        return self

    @property
    def drain_sinks_ms(self) -> int:
        """The time for which the release of a partition waits for sinks: half of ``drain_timeout_ms``.

        The other half is for its last commits.
        """
        return self.drain_timeout_ms // 2

    @cached_property
    def destinations(self) -> Destinations:
        """The content of ``destinations_file``."""
        return read_destinations(self.destinations_file)

    @cached_property
    def output_namespace(self) -> OutputNamespace:
        """The patterns of ``output_topics``."""
        return OutputNamespace.of(self.output_topics)

    @property
    def home(self) -> Path:
        """The part of the data directory that this application has."""
        return self.data_dir / self.app_id


def load_settings(**overrides: Any) -> Settings:
    """Load the settings from the environment. ``overrides`` take precedence.

    Raises ``SettingsError`` that names every wrong field and says how its variable is named.
    """
    try:
        return Settings(**overrides)
    except ValidationError as error:
        faults = "; ".join(fault_text({**fault}) for fault in error.errors())
        raise SettingsError(
            f"The worker cannot start with these settings: {faults}. Each is TIDEGATE_<NAME> in the "
            "environment or an option of `tidegate worker`"
        ) from None
