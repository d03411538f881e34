"""The forms of a batch: dicts, polars and pandas, HTML; and what is said where a package is absent."""

from __future__ import annotations

import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from tests.unit.client.subscribe.forms.batches import AT, batch_of
from tidegate.client.subscribe import DeliveredBatch
from tidegate.errors import InputError, RowError, SettingsError

ROW = (AT, 1, 2**60 + 1, Decimal("0.10"), None)


def batch(*rows: tuple[Any, ...]) -> DeliveredBatch:
    """A batch of diffs."""
    return batch_of("SUBSCRIBE accounts", *rows)


def test_dicts_have_the_values_by_their_columns() -> None:
    assert batch(ROW).dicts() == [
        {"mz_timestamp": AT, "mz_diff": 1, "id": 2**60 + 1, "balance": Decimal("0.10"), "note": None}
    ]
    with pytest.raises(InputError, match="another name"):
        batch_of("SUBSCRIBE (SELECT id, id FROM accounts)", (AT, 1, 1, 1)).dicts()


def test_pandas_keeps_integers_beside_null_and_decimals() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = batch(ROW, (AT, 1, None, None, "x")).pandas()
    assert frame["id"].iloc[0] == 2**60 + 1
    assert frame["balance"].iloc[0] == Decimal("0.10")
    assert frame["id"].isna().tolist() == [False, True]


def test_polars_keeps_them_too() -> None:
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    frame = batch(ROW, (AT, 1, None, None, "x")).polars()
    assert frame["id"].to_list() == [2**60 + 1, None]
    assert frame["balance"].to_list() == [Decimal("0.10"), None]
    assert frame["balance"].dtype == polars.Decimal(10, 2)
    assert frame["mz_timestamp"].to_list() == [Decimal("5.0000000001")] * 2


@pytest.mark.parametrize(
    ("package", "extra", "form"),
    [
        ("pyarrow", "arrow", DeliveredBatch.arrow),
        ("polars", "polars", DeliveredBatch.polars),
        ("pandas", "pandas", DeliveredBatch.pandas),
    ],
)
def test_an_absent_package_is_named_with_its_extra(
    package: str, extra: str, form: Callable[[DeliveredBatch], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as Python does where an import was looked for in vain
    with pytest.raises(SettingsError, match=rf"needs {package}, .*pip install 'tidegate\[{extra}\]'"):
        form(batch(ROW))


def test_a_notebook_shows_the_first_rows_and_no_html_of_values() -> None:
    rows = [(AT, 1, at, None, "<script>alert(1)</script>" + "x" * 500) for at in range(50)]
    shown = batch(*rows)._repr_html_()
    assert shown.count("<tr>") == 1 + 20
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    assert "x" * 201 not in shown
    assert "50 rows, complete below 9.0000000000; the first 20 rows are shown" in shown


def test_names_of_columns_are_escaped_in_a_notebook_and_bounded() -> None:
    columns = (("id", "INT8"), *((f"<b>{at}", "INT8") for at in range(80)))
    shown = batch_of("SUBSCRIBE accounts", columns=columns)._repr_html_()
    assert "<b>" not in shown
    assert shown.count("<th>") == 50
    assert "the first 50 of 83 columns" in shown


def test_json_that_is_nested_deeper_than_the_stack_ends_no_notebook_and_is_named_in_arrow() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    nested = batch_of("SUBSCRIBE accounts", (AT, 1, 1, deep), columns=(("id", "INT8"), ("doc", "JSONB")))
    shown = nested._repr_html_()
    assert shown.endswith("[…</td></tr></tbody></table>")
    assert len(shown) < 1_000, "the value is cut"
    pytest.importorskip("pyarrow")
    with pytest.raises(RowError, match="column doc of type JSONB has the value JSON that is nested"):
        nested.arrow()
    assert nested.arrow(("doc",)).column("doc").to_pylist() == ["[" * 100_001 + "]" * 100_001]
