"""The result of a step."""

from __future__ import annotations

import pytest

from tidegate.processor.batch import StepResult
from tidegate.processor.refused import KEPT_OF_A_STEP, RefusedRecord, Source


@pytest.mark.parametrize("size", [1, 2, 3, KEPT_OF_A_STEP + 3])
def test_a_step_keeps_its_first_refused_records_however_they_come(size: int) -> None:
    refused = [
        RefusedRecord(Source.LOG, offset, 0, None, None, "ArithmeticError", "odd")
        for offset in range(2 * KEPT_OF_A_STEP + 3)
    ]
    result = StepResult(None)
    for first in range(0, len(refused), size):
        result.keep_aside(refused[first : first + size])
    assert result.refused == refused[:KEPT_OF_A_STEP]
