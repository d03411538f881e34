"""SUBSCRIBE: the rows of output topics as batches that are complete, in the form that a statement asks
for."""

from tidegate.subscribe.client.cohort import Cohort, JointRelease
from tidegate.subscribe.client.consumer_state import ConsumerState, ReleasedBatch
from tidegate.subscribe.client.resume_token import ResumeToken, read_token
from tidegate.subscribe.client.table_contents import TableContents
from tidegate.subscribe.figures import SubscriptionFigures
from tidegate.subscribe.gate.feed_record import FeedPartition, FeedRecord
from tidegate.subscribe.gate.row_gate import GateStart, RowGate
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.readable_history import ReadableHistory
from tidegate.subscribe.statement.keyword_form import subscribe_statement
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.statement.switches import SubscribeSwitches
from tidegate.subscribe.subscription import Subscription, SubscriptionBatch, SubscriptionSource, resumed
from tidegate.subscribe.updates.relation import Relation, Relations

__all__ = [
    "Cohort",
    "ConsumerState",
    "Dialect",
    "FeedPartition",
    "FeedRecord",
    "GateStart",
    "JointRelease",
    "ReadableHistory",
    "Relation",
    "Relations",
    "ReleasedBatch",
    "ResumeToken",
    "RowGate",
    "SubscribePlan",
    "SubscribeSwitches",
    "Subscription",
    "SubscriptionBatch",
    "SubscriptionFigures",
    "SubscriptionSource",
    "TableContents",
    "parse_subscribe",
    "plan_subscribe",
    "read_token",
    "resumed",
    "subscribe_statement",
]
