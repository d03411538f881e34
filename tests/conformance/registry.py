"""The functions that check each kind of case. A kind that is not here is skipped, and says so."""

from __future__ import annotations

from typing import Final

from tests.conformance import changefeed, encoding, key_values
from tests.conformance.case import Check
from tests.conformance.catchup import check_catchup
from tests.conformance.frontier import check_frontier
from tests.conformance.range_feed import check_processor
from tests.conformance.resolver import check_resolver
from tests.conformance.subscribe_clients import check_client, check_cohort, check_resume
from tests.conformance.subscribe_errors import check_error
from tests.conformance.subscribe_formats import check_format

CHECKS: Final[dict[str, Check]] = {
    **changefeed.CHECKS,
    **encoding.CHECKS,
    **key_values.CHECKS,
    "catchup": check_catchup,
    "client": check_client,
    "cohort": check_cohort,
    "error": check_error,
    "format": check_format,
    "frontier": check_frontier,
    "processor": check_processor,
    "resolver": check_resolver,
    "resume": check_resume,
}
