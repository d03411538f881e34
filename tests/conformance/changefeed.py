"""Changefeed cases: names and statements by themselves, everything else by running the feed.

A case of a claimed group that asks for a format, envelope or other option which is refused as not supported
yet is left out, by that refusal; any other refusal that the case does not expect is a failure. What a run
shows of initial scans, and what not, stands in ``case_history``.
"""

from __future__ import annotations

import re
from typing import Final

from tests.conformance.case import Case, Check, NotClaimed
from tests.conformance.case_feed import case_feed
from tests.conformance.expectations import Outcome, unmet
from tests.conformance.feed_run import run_feed
from tests.conformance.partition_examples import EXAMPLE_MEMBERS, Example, examples_in
from tidegate.changefeed.names import avro_name, kafka_name
from tidegate.errors import FeedError, StatementError

#: How an option, or a value of one, is refused that exists but not in this version.
_NOT_YET: Final = re.compile(r"[^\n]*\bnot (?:supported yet|yet supported)[;:]")


def check_feed(case: Case) -> str | None:
    """Run the case and compare what it expects. Raises ``NotClaimed``."""
    feed = case_feed(case)
    try:
        feed.define()
    except StatementError as error:
        _leave_out_unsupported(case, error)
        return unmet(case, Outcome(str(error), None))
    try:
        return unmet(case, Outcome("", run_feed(case, feed)))
    except FeedError as error:
        return unmet(case, Outcome(str(error), None))


def _leave_out_unsupported(case: Case, error: StatementError) -> None:
    """Raise ``NotClaimed`` unless the case expects a refusal: then it has to be the expected one."""
    expect = case["expect"]
    if "error" not in expect and "error_regex" not in expect and _NOT_YET.match(str(error)):
        raise NotClaimed(str(error).partition("\n")[0])


def _check_topic_name(case: Case) -> str | None:
    return _difference(case["expect"]["topic"], kafka_name(case["options"]["sql_name"]))


def _check_avro_name(case: Case) -> str | None:
    return _difference(case["expect"]["avro_name"], avro_name(case["options"]["sql_name"]))


def _check_refusal(case: Case) -> str | None:
    """The statement is refused, whatever it would do: no registry is added here."""
    expected = case["expect"]["error"]
    try:
        case_feed(case, registry="").define()
    except StatementError as error:
        return None if expected in str(error) else f"expected {expected!r}, got {str(error)!r}"
    return f"expected {expected!r}, and nothing was refused"


def _check_partitions(case: Case) -> str | None:
    """Computed examples on the partitioner, and everything else by running the feed."""
    examples = examples_in(case)
    if not examples:
        return check_feed(case)
    failure = next((example.difference() for example in examples if example.difference()), None)
    if failure is None and case.get("writes"):
        failure = _written_elsewhere(case, examples)
    rest = {name: value for name, value in case["expect"].items() if name not in EXAMPLE_MEMBERS}
    return check_feed({**case, "expect": rest}) if rest and failure is None else failure


def _written_elsewhere(case: Case, examples: list[Example]) -> str | None:
    """A record whose key is an example's, on another partition than the example says."""
    wanted = {
        example.key.decode(): example.partition
        for example in examples
        if example.partition is not None and example.partitions == case["options"].get("partitions")
    }
    if not wanted:
        return None
    rows = [line for output in run_feed(case, case_feed(case)).outputs for line in output.rows]
    if rows and not wanted.keys() <= {line.key for line in rows}:
        return f"no record has the key {', '.join(sorted(wanted.keys() - {line.key for line in rows}))}"
    return next(
        (
            f"key {line.key}: expected partition {wanted[line.key]}, written to {line.partition}"
            for line in rows
            if line.key in wanted and line.partition != wanted[line.key]
        ),
        None,
    )


def _difference(expected: str, found: str) -> str | None:
    return None if found == expected else f"expected {expected!r}, got {found!r}"


CHECKS: Final[dict[str, Check]] = {
    "changefeed.avroname": _check_avro_name,
    "changefeed.avrotype": check_feed,
    "changefeed.basic": check_feed,
    "changefeed.enc": check_feed,
    "changefeed.env": check_feed,
    "changefeed.jsontype": check_feed,
    "changefeed.keycol": check_feed,
    "changefeed.opterr": _check_refusal,
    "changefeed.part": _check_partitions,
    "changefeed.topicname": _check_topic_name,
}
