"""The header of each mode, and the columns that a clause may name."""

from __future__ import annotations

import pytest

from tidegate.errors import SubscribeStatementError
from tidegate.subscribe.outputs.shape import OutputShape, shape_of
from tidegate.subscribe.statement.parser import parse_subscribe


def shape(clause: str, columns: tuple[str, ...] = ("a", "b", "c"), *, progress: bool = False) -> OutputShape:
    """The shape of a clause for a table ``t``."""
    output = parse_subscribe(f"SUBSCRIBE t {clause}").output
    return shape_of(columns, output, (("t",),), progress=progress)


@pytest.mark.parametrize(
    ("clause", "header"),
    [
        ("", "mz_timestamp mz_progressed mz_diff a b c"),
        ("WITHIN TIMESTAMP ORDER BY c", "mz_timestamp mz_progressed mz_diff a b c"),
        ("ENVELOPE UPSERT (KEY (c, a))", "mz_timestamp mz_progressed mz_state c a b"),
        ("ENVELOPE UPSERT (KEY (c, b, a))", "mz_timestamp mz_progressed mz_state c b a"),
        (
            "ENVELOPE DEBEZIUM (KEY (b))",
            "mz_timestamp mz_progressed mz_state b before_a before_c after_a after_c",
        ),
        ("ENVELOPE DEBEZIUM (KEY (c, b, a))", "mz_timestamp mz_progressed mz_state c b a"),
    ],
)
def test_the_header_follows_the_key_list(clause: str, header: str) -> None:
    assert shape(clause, progress=True).header == tuple(header.split())
    without = [name for name in header.split() if name != "mz_progressed"]
    assert shape(clause).header == tuple(without)


@pytest.mark.parametrize(
    ("item", "position"), [("mz_diff", -1), ("1", -1), ("2", 0), ("4", 2), ("b", 1), ("t.b", 1), ('"b"', 1)]
)
def test_items_of_order_by_are_columns_or_positions(item: str, position: int) -> None:
    assert [each.position for each in shape(f"WITHIN TIMESTAMP ORDER BY {item}").order_by] == [position]


@pytest.mark.parametrize(
    ("clause", "columns", "code", "text"),
    [
        ("ENVELOPE UPSERT (KEY (d))", "a b", "unknown_column", 'column "d" does not exist'),
        ("ENVELOPE UPSERT (KEY (mz_diff))", "a b", "unknown_column", 'column "mz_diff" does not exist'),
        ("ENVELOPE DEBEZIUM (KEY (A))", "A b", "unknown_column", 'column "a" does not exist'),
        ("ENVELOPE DEBEZIUM (KEY (a))", "a a", "ambiguous_column", 'column reference "a" is ambiguous'),
        ("ENVELOPE UPSERT (KEY (b, a, b))", "a b", "duplicate_key", 'duplicate column "b" in KEY'),
        ("WITHIN TIMESTAMP ORDER BY d", "a b", "unknown_column", 'column "d" does not exist'),
        (
            "WITHIN TIMESTAMP ORDER BY mz_timestamp",
            "a b",
            "unknown_column",
            'column "mz_timestamp" does not exist',
        ),
        ("WITHIN TIMESTAMP ORDER BY u.a", "a b", "unknown_column", 'column "u.a" does not exist'),
        ("WITHIN TIMESTAMP ORDER BY mz_diff", "a mz_diff", "ambiguous_column", '"mz_diff" is ambiguous'),
        (
            "WITHIN TIMESTAMP ORDER BY 0",
            "a b",
            "position_out_of_range",
            "0 in ORDER BY clause is out of range (1 - 3)",
        ),
        (
            "WITHIN TIMESTAMP ORDER BY 4",
            "a b",
            "position_out_of_range",
            "4 in ORDER BY clause is out of range (1 - 3)",
        ),
        ("WITHIN TIMESTAMP ORDER BY a + 1", "a b", "invalid_order_by", "invalid ORDER BY in SUBSCRIBE"),
        ("WITHIN TIMESTAMP ORDER BY (a, b)", "a b", "invalid_order_by", "invalid ORDER BY in SUBSCRIBE"),
        ("WITHIN TIMESTAMP ORDER BY a, (a, b) DESC", "a b", "invalid_order_by", "invalid ORDER BY in"),
        ("WITHIN TIMESTAMP ORDER BY TRUE", "a b", "invalid_order_by", "invalid ORDER BY in SUBSCRIBE"),
        ("WITHIN TIMESTAMP ORDER BY 'a'", "a b", "invalid_order_by", "invalid ORDER BY in SUBSCRIBE"),
    ],
)
def test_what_a_clause_may_not_name(clause: str, columns: str, code: str, text: str) -> None:
    with pytest.raises(SubscribeStatementError) as caught:
        shape(clause, tuple(columns.split()))
    assert caught.value.code == code
    assert text in str(caught.value)
