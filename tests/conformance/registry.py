"""Which function checks which kind of case. A kind that is not here is skipped, and says so."""

from __future__ import annotations

from typing import Final

from tests.conformance import changefeed, encoding, key_values
from tests.conformance.case import Check
from tests.conformance.frontier import check_frontier
from tests.conformance.resolver import check_resolver

CHECKS: Final[dict[str, Check]] = {
    **changefeed.CHECKS,
    **encoding.CHECKS,
    **key_values.CHECKS,
    "frontier": check_frontier,
    "resolver": check_resolver,
}
