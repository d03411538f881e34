"""The auditor of output topics: it checks whether they keep the promises that their markers make."""

from tidegate.verify.auditor import AuditOptions, Auditor, audit
from tidegate.verify.history import ExpectedVersion
from tidegate.verify.record import TopicPartition, TopicRecord
from tidegate.verify.report import AuditCounts, AuditReport, Unchecked, Verdict
from tidegate.verify.violation import Violation, ViolationKind

__all__ = [
    "AuditCounts",
    "AuditOptions",
    "AuditReport",
    "Auditor",
    "ExpectedVersion",
    "TopicPartition",
    "TopicRecord",
    "Unchecked",
    "Verdict",
    "Violation",
    "ViolationKind",
    "audit",
]
