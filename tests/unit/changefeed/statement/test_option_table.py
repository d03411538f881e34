"""The table of options has each of them, and tells the ones that are missing."""

from __future__ import annotations

import pytest

from tests.unit.changefeed.statement.read_clauses import COMPANIONS, an_accepted_value, clauses, read, refusal
from tidegate.changefeed.statement.option_table import KNOWN_OPTIONS, SUPPORTED_OPTIONS


@pytest.mark.parametrize("name", sorted(KNOWN_OPTIONS.keys() - set(SUPPORTED_OPTIONS)))
def test_every_known_option_that_is_missing_is_refused_by_its_name(name: str) -> None:
    text = refusal(**{name: an_accepted_value(name)})
    assert name in text
    assert "unknown" not in text


@pytest.mark.parametrize("name", SUPPORTED_OPTIONS)
def test_every_option_that_is_said_to_be_supported_is(name: str) -> None:
    read(clauses(**{name: an_accepted_value(name)}, **COMPANIONS.get(name, {})))
