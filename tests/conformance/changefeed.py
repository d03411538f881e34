"""Changefeed cases: names and statements by themselves, everything else by running the feed.

A case of a claimed group that asks for a format, envelope or other option which is refused as not supported
yet is left out, by that refusal; any other refusal that the case does not expect is a failure. What a run
shows of initial scans, and what not, stands in ``case_history``.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Final

from tests.conformance.case import Case, Check, NotClaimed
from tests.conformance.case_feed import case_feed
from tests.conformance.case_statements import without_statements
from tests.conformance.expectations import Outcome, unmet
from tests.conformance.feed_run import run_feed
from tests.conformance.partition_examples import REMARKS, Example, examples_in, is_example
from tidegate.changefeed.definition.names import avro_name, kafka_name
from tidegate.changefeed.definition.options import Format
from tidegate.errors import FeedError, StatementError

#: How an option, or a value of one, is refused that exists but not in this version.
_NOT_YET: Final = re.compile(r"[^\n]*\bnot (?:supported yet|yet supported)[;:]")


def check_feed(case: Case) -> str | None:
    """Run the case and compare what it expects. Raises ``NotClaimed``.

    One that expects to be ``accepted`` is about statements alone: one for each value of an option that lists
    several.
    """
    if case["expect"] == {"accepted": True}:
        return _first_refusal(case)
    case = without_statements(case)
    if not case.get("table"):
        return f"the case has no table, so nothing can be run for what it expects: {case['expect']}"
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


def _check_schema_change(case: Case) -> str | None:
    """Check a case about a feed that runs: it never expects that an option is not supported yet."""
    case = without_statements(case)
    try:
        case_feed(case).define()
    except StatementError as error:
        if _NOT_YET.match(str(error)):
            raise NotClaimed(str(error).partition("\n")[0]) from error
    return check_feed(case)


def _first_refusal(case: Case) -> str | None:
    options = case["options"]
    values = [value if isinstance(value, list) else [value] for value in options.values()]
    if not all(values):
        return f"an option lists no value, so nothing can be accepted: {options}"
    for chosen in product(*values):
        try:
            case_feed({**case, "options": dict(zip(options, chosen, strict=True))}).define()
        except StatementError as error:
            _leave_out_unsupported(case, error)
            return f"refused: {error}"
    return None


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
    """The statement is refused, whatever it would do: no registry is added here.

    Where the statement alone is fine, it is the table that does not fit it: a column is missing, say.
    """
    case = without_statements(case)
    try:
        case_feed(case, registry="").define()
    except StatementError as error:
        return unmet(case, Outcome(str(error), None))
    if case.get("table"):
        return check_feed(case)
    wanted = case["expect"].get("error", case["expect"].get("error_regex"))
    return f"expected {wanted!r}, and nothing was refused"


def _check_partitions(case: Case) -> str | None:
    """Computed examples on the partitioner, and everything else by running the feed."""
    try:
        examples = examples_in(case)
    except ValueError as error:
        return str(error)
    if not examples:
        return check_feed(case)
    failure = next((example.difference() for example in examples if example.difference()), None)
    if failure is None and case.get("writes") and case.get("table"):
        failure = _written_elsewhere(case, examples)
    rest = {
        name: value for name, value in case["expect"].items() if not is_example(name) and name not in REMARKS
    }
    return check_feed({**case, "expect": rest}) if rest and failure is None else failure


def _written_elsewhere(case: Case, examples: list[Example]) -> str | None:
    """A record whose key is an example's, on another partition than the example says."""
    counts = {example.partitions for example in examples if example.partition is not None}
    count = case["options"].get("partitions", next(iter(counts)) if len(counts) == 1 else None)
    wanted = {example.key: example.partition for example in examples if example.partitions == count}
    if count is None or not wanted:
        return None
    feed = case_feed({**case, "options": {**case["options"], "partitions": count}})
    if feed.define().format is Format.AVRO:
        return None  # whose keys hold the ids of schemas, which are the registry's
    run = run_feed(case, feed)
    rows = [(line.key.encode(), line.partition) for output in run.outputs for line in output.rows]
    if run.failures or len(rows) < run.history.versions:
        return f"{run.history.versions} row versions gave {len(rows)} records; {'; '.join(run.failures)}"
    if rows and (lacking := wanted.keys() - dict(rows).keys()):
        return f"no record has the key {min(lacking)!r}"
    return next(
        (
            f"key {key!r}: expected partition {wanted[key]}, written to {partition}"
            for key, partition in rows
            if wanted.get(key, partition) != partition
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
    "changefeed.name": check_feed,
    "changefeed.opt": check_feed,
    "changefeed.opterr": _check_refusal,
    "changefeed.part": _check_partitions,
    "changefeed.resolved": check_feed,
    "changefeed.schema": _check_schema_change,
    "changefeed.time": check_feed,
    "changefeed.topicname": _check_topic_name,
}
