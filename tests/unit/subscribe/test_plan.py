"""Tests what a statement means for given tables, and where it may begin."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tidegate.changefeed.definition.feed import TableName
from tidegate.errors import HistoryLost, SettingsError, SubscribeStatementError
from tidegate.hlc import Timestamp
from tidegate.subscribe.fingerprint import fingerprint
from tidegate.subscribe.outputs.dialect import Dialect
from tidegate.subscribe.plan import SubscribePlan, plan_subscribe
from tidegate.subscribe.readable_history import ReadableHistory, dropped
from tidegate.subscribe.statement.keyword_form import subscribe_statement
from tidegate.subscribe.statement.parser import parse_subscribe
from tidegate.subscribe.updates.relation import Relation, Relations

TABLE = Relation(TableName("t"), ("id", "v"), ("id",))
RELATIONS = Relations(
    [
        TABLE,
        Relation(TableName("twice"), ("a",)),
        Relation(TableName("twice", database="other"), ("a",)),
        Relation(TableName("s"), (), kind="sink"),
    ]
)
HISTORY = ReadableHistory(readable_from=Timestamp(100), present=Timestamp(500))


def plan(text: str) -> SubscribePlan:
    """The plan of a statement."""
    return plan_subscribe(parse_subscribe(text), RELATIONS, now_ns=1_000)


@pytest.mark.parametrize("name", ["t", "public.t", "defaultdb.t", "defaultdb.public.t", '"t"', "T"])
def test_a_table_is_known_by_the_last_parts_of_its_name(name: str) -> None:
    assert plan(f"SUBSCRIBE {name}").relation is TABLE


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("SUBSCRIBE u", "unknown_relation", "unknown catalog item 'u'"),
        ("SUBSCRIBE other.t", "unknown_relation", "unknown catalog item 'other.t'"),
        ("SUBSCRIBE twice", "unknown_relation", "is ambiguous"),
        ("SUBSCRIBE s", "not_subscribable", "'s' cannot be subscribed to because it is a sink"),
        ("SUBSCRIBE (SELECT x FROM t)", "unknown_column", 'column "x" does not exist'),
        ("SUBSCRIBE (SELECT id FROM t WHERE t2.v = 1)", "unknown_column", 'column "t2.v" does not exist'),
        ("SUBSCRIBE (SELECT id FROM t ORDER BY 2 LIMIT 1)", "position_out_of_range", "out of range (1 - 1)"),
        ("SUBSCRIBE (SELECT id, id FROM t) ENVELOPE UPSERT (KEY (id))", "ambiguous_column", "ambiguous"),
        ("SUBSCRIBE (SELECT v AS w FROM t) ENVELOPE UPSERT (KEY (v))", "unknown_column", 'column "v"'),
        ("SUBSCRIBE t AS OF NULL", "invalid_bound", "castable"),
        (
            "SUBSCRIBE t AS OF 20 UP TO '10'",
            "bounds_crossed",
            'subscription lower ("as of") bound is beyond its upper ("up to") bound: \'10\' < 20',
        ),
    ],
)
def test_what_a_statement_cannot_mean(text: str, code: str, message: str) -> None:
    with pytest.raises(SubscribeStatementError) as caught:
        plan(text)
    assert caught.value.code == code
    assert message in str(caught.value)


def test_keyword_arguments_mean_what_a_statement_means() -> None:
    keywords = subscribe_statement(
        "SELECT id, v FROM t", envelope="upsert", key=["id"], progress=True, as_of=Timestamp(5, 2), up_to="9"
    )
    text = (
        "SUBSCRIBE (SELECT id, v FROM t) ENVELOPE UPSERT (KEY (id)) WITH (PROGRESS) "
        "AS OF 5.0000000002 UP TO 9"
    )
    assert plan_subscribe(keywords, RELATIONS, now_ns=0) == plan(text)
    ordered = subscribe_statement("t", order_by=["v DESC", "mz_diff"], snapshot=False, as_of=7, at_least=True)
    text = "SUBSCRIBE t WITHIN TIMESTAMP ORDER BY v DESC, mz_diff WITH (SNAPSHOT = false) AS OF AT LEAST 7"
    assert plan_subscribe(ordered, RELATIONS, now_ns=0) == plan(text)


@pytest.mark.parametrize(
    ("keywords", "code"),
    [
        ({"key": ["id"]}, "invalid_key"),
        ({"envelope": "upsert"}, "invalid_key"),
        ({"envelope": "none", "key": ["id"]}, "syntax_error"),
        ({"envelope": "upsert", "key": ["id"], "order_by": ["id"]}, "conflicting_modifiers"),
        ({"envelope": "upsert", "key": ["id", "id"]}, "duplicate_key"),
    ],
)
def test_keyword_arguments_are_refused_as_statements_are(keywords: dict[str, object], code: str) -> None:
    with pytest.raises(SubscribeStatementError) as caught:
        plan_subscribe(subscribe_statement("t", **keywords), RELATIONS, now_ns=0)  # type: ignore[arg-type]
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("dialect", "as_of", "shown"),
    [
        (Dialect.TIDEGATE, "7", "Timestamp (7.0000000000) is not"),
        (Dialect.MATERIALIZE, "7", "Timestamp (7) is not"),
        (Dialect.MATERIALIZE, "7.0000000001", "Timestamp (7.0000000001) is not"),
    ],
)
def test_a_timestamp_that_is_lost_is_told_as_the_dialect_has_it(
    dialect: Dialect, as_of: str, shown: str
) -> None:
    statement = parse_subscribe(f"SUBSCRIBE t AS OF {as_of}")
    with pytest.raises(HistoryLost, match=re.escape(shown)):
        HISTORY.choose_as_of(plan_subscribe(statement, RELATIONS, now_ns=0, dialect=dialect))


def test_a_dialect_is_known_by_its_name_alone() -> None:
    statement = parse_subscribe("SUBSCRIBE t")
    for dialect in Dialect:
        assert plan_subscribe(statement, RELATIONS, 0, dialect.value).dialect is dialect
    with pytest.raises(SettingsError, match=r"no dialect 'Materialise'; there are tidegate, materialize"):
        plan_subscribe(statement, RELATIONS, 0, "Materialise")


def test_a_statement_without_as_of_begins_at_the_present() -> None:
    assert HISTORY.choose_as_of(plan("SUBSCRIBE t")) == Timestamp(500)
    assert HISTORY.choose_as_of(plan("SUBSCRIBE t AS OF 100")) == Timestamp(100)
    assert HISTORY.choose_as_of(plan("SUBSCRIBE t AS OF AT LEAST 7")) == Timestamp(100)
    assert HISTORY.choose_as_of(plan("SUBSCRIBE t AS OF AT LEAST 200")) == Timestamp(200)


def test_a_past_that_is_gone_is_an_error_and_never_a_gap() -> None:
    with pytest.raises(HistoryLost, match="is not valid for all inputs") as caught:
        HISTORY.choose_as_of(plan("SUBSCRIBE t AS OF 99"))
    assert (caught.value.code, caught.value.sqlstate) == ("history_lost", "22000")


def test_an_as_of_that_was_chosen_may_be_beyond_up_to() -> None:
    with pytest.raises(SubscribeStatementError, match=r"bound: 300\.0000000000 < 500\.0000000000"):
        HISTORY.choose_as_of(plan("SUBSCRIBE t UP TO 300"))


def test_a_dropped_table_is_named_in_full() -> None:
    error = dropped(TABLE)
    assert str(error) == "relation 'defaultdb.public.t' was dropped"
    assert error.sqlstate == "42704"


def test_a_fingerprint_is_of_the_shape_alone() -> None:
    same = [
        "SUBSCRIBE t ENVELOPE UPSERT (KEY (id))",
        'SUBSCRIBE TO public."t" WITH (PROGRESS) AS OF 5 UP TO 9 ENVELOPE UPSERT (KEY ("id"));',
    ]
    others = [
        "SUBSCRIBE t",
        "SUBSCRIBE t ENVELOPE DEBEZIUM (KEY (id))",
        "SUBSCRIBE t ENVELOPE UPSERT (KEY (v))",
        "SUBSCRIBE (SELECT * FROM t) ENVELOPE UPSERT (KEY (id))",
        "SUBSCRIBE (SELECT * FROM t WHERE v > 1) ENVELOPE UPSERT (KEY (id))",
        "SUBSCRIBE (SELECT * FROM t WHERE v > 2) ENVELOPE UPSERT (KEY (id))",
        "SUBSCRIBE (SELECT * FROM t ORDER BY v LIMIT 1) ENVELOPE UPSERT (KEY (id))",
        "SUBSCRIBE (SELECT * FROM t ORDER BY v DESC LIMIT 1) ENVELOPE UPSERT (KEY (id))",
    ]
    assert len({fingerprint(plan(text)) for text in same}) == 1
    assert len({fingerprint(plan(text)) for text in (*same, *others)}) == len(others) + 1
    assert fingerprint(plan("SUBSCRIBE t"), "feed") != fingerprint(plan("SUBSCRIBE t"))
    assert fingerprint(plan("SUBSCRIBE t")) == fingerprint(plan("SUBSCRIBE t WITHIN TIMESTAMP ORDER BY v"))
    wider = replace(TABLE, columns=("id", "v", "w"))
    assert fingerprint(replace(plan("SUBSCRIBE t"), relation=wider)) == fingerprint(plan("SUBSCRIBE t"))


def test_the_fingerprint_of_a_statement_stays() -> None:
    """It is in the tokens that consumers have stored."""
    text = (
        "SUBSCRIBE (SELECT id, v + 1 AS w FROM t WHERE v IS NOT NULL AND id <> 3) ENVELOPE UPSERT (KEY (id))"
    )
    assert fingerprint(plan(text), "feed") == "991f8815e586e805b6968df6a016e478"


def test_a_table_that_is_not_there_is_answered_with_those_that_are() -> None:
    many = [Relation(TableName(f"t{at:02}"), ("id",)) for at in range(12)]
    for relations, hint in (
        (many[:2], "feeds write defaultdb.public.t00, defaultdb.public.t01"),
        (many, f"feeds write {', '.join(str(each.name) for each in many[:10])}, and 2 more"),
        ([], "no feed writes a table"),
    ):
        with pytest.raises(SubscribeStatementError) as caught:
            plan_subscribe(parse_subscribe("SUBSCRIBE u"), Relations(relations), now_ns=0)
        assert caught.value.hint == hint
