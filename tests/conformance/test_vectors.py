"""Every vector of a kind that the code claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.case import kind_of, read_cases
from tests.conformance.registry import CHECKS
from tests.conformance.runner import Outcome, run_case

VECTORS = Path(__file__).parent / "vectors"
CASES = [case for path in sorted(VECTORS.glob("*.jsonl")) for case in read_cases(path)]
CLAIMED = [case for case in CASES if kind_of(case) in CHECKS]


@pytest.mark.parametrize("case", CLAIMED, ids=[str(case["id"]) for case in CLAIMED])
def test_vector(case: dict[str, Any]) -> None:
    result = run_case(case)
    if result.outcome is Outcome.SKIPPED:
        pytest.skip(result.detail)
    assert result.outcome is Outcome.PASSED, result.detail


def test_every_encoding_kind_is_claimed() -> None:
    kinds = {kind_of(case) for case in read_cases(VECTORS / "encoding.jsonl")}
    assert kinds <= CHECKS.keys()
