"""Defines a table of partition state: one kind of row, with its key prefix and its changelog."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.processor.batch import StateTable


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a log partition's state.

    ``prefix`` is one byte that stands before each key in the local store. So one store holds all tables of a
    partition, and one write batch changes them together. The changelog is the topic
    ``<app>-<table>-changelog``. It is compacted. It has the keys of the table, and as many partitions as the
    log.
    """

    state: StateTable
    prefix: bytes
