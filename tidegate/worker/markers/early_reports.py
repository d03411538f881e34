"""Keeps the checkpoints for a feed that come before its frontier has begun."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidegate.processor.checkpoint import PartitionProgress, merged

_REPORTS: Final = 64
_SPANS_MAX: Final = 200_000


class EarlyReports:
    """The reports that are kept until one feed takes them: the newest of each span, and maybe older ones.

    If they have more than 200,000 spans, all are dropped: partitions publish everything again every 30 s.
    """

    def __init__(self) -> None:
        self._reports: list[PartitionProgress] = []
        self._room = _REPORTS

    def add(self, report: PartitionProgress) -> None:
        """Keep a report, which must name the feed in its epoch."""
        self._reports.append(replace(report, feeds=()))
        if len(self._reports) < self._room:
            return
        self._reports = merged(self._reports)
        if sum(len(kept.starts) for kept in self._reports) > _SPANS_MAX:
            self._reports = []
        self._room = 2 * len(self._reports) + _REPORTS

    def take_reports(self) -> list[PartitionProgress]:
        """Return the kept reports, and keep them no longer."""
        reports, self._reports = self._reports, []
        return reports
