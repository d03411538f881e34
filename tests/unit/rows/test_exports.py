"""The package's public surface."""

from __future__ import annotations

from tidegate import rows


def test_exported_names_exist_and_are_sorted() -> None:
    assert rows.__all__ == sorted(rows.__all__)
    assert all(hasattr(rows, name) for name in rows.__all__)
