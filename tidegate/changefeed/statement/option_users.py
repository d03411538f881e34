"""The readers of a feed's options: the words of the column "used by" in docs/statements.md.

That page says for each word which modules are meant. An option has a word exactly if a module of that word
reads the option's field of ``FeedOptions``. The parser of statements reads every option, and does not count.
"""

from __future__ import annotations

import enum


class User(enum.Enum):
    """The parts of tidegate that read options, in the order in which the page names them."""

    RECORDS = "records"
    """The encoders and decoders of keys, values, headers and markers."""
    NAMES = "names"
    """The names of topics, and of subjects in a schema registry."""
    JOBS = "jobs"
    """A feed's way from its definition to its end, for both engines."""
    PREPARATION = "preparation"
    """The checks and the topics that are made at the sink before a feed begins."""
    PROCESSORS = "processors"
    """The step of a log partition, which both engines run."""
    MARKERS = "markers"
    """The topics and partitions that markers go to, for both engines."""
    WORKERS = "workers"
    SPARK = "Spark"
    """The Spark query, which writes feeds as workers do."""
    BACKFILL = "backfill"
    LOADER = "loader"
    """The loader of the warehouse."""
    SUBSCRIPTIONS = "subscriptions"
    """SUBSCRIBE, which reads what feeds have written."""
    COMMANDS = "commands"
    """``tidegate feed``, ``tail`` and ``verify``, and the client that they use."""
    SECRETS = "secrets"
    """The code that keeps the secrets of a definition apart."""
