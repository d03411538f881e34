"""What a table of partition state is: one kind of row, its key space in the local store, its changelog."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.processor.batch import StateTable


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a log partition's state.

    ``prefix`` is one byte before each key in the local store, so that one store holds all tables of a
    partition and one write batch changes them together. The changelog is the topic
    ``<app>-<table>-changelog``: as many partitions as the log, compacted, keyed like the table.
    """

    state: StateTable
    prefix: bytes
