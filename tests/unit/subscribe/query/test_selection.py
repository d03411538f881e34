"""Queries over one table: how many columns one may have."""

from __future__ import annotations

import pytest

from tests.unit.subscribe.consumer_run import plan_of
from tests.unit.subscribe.topic_histories import RELATION
from tidegate.errors import SubscribeStatementError


def test_a_query_has_as_many_columns_as_in_postgresql() -> None:
    width = len(RELATION.columns)
    stars = 1_664 // width
    columns = ", ".join(["*"] * stars + ["id"] * (1_664 - stars * width))
    assert len(plan_of(f"SUBSCRIBE (SELECT {columns} FROM accounts)").shape.header) >= 1_664
    with pytest.raises(SubscribeStatementError, match="up to 1,664 columns") as caught:
        plan_of(f"SUBSCRIBE (SELECT {columns}, id FROM accounts)")
    assert (caught.value.code, caught.value.sqlstate) == ("too_many_columns", "54011")
