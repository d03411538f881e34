"""Errors of other servers, by their codes."""

from __future__ import annotations

import pytest

from tidegate.errors import (
    CredentialsExpired,
    FellBehind,
    HistoryLost,
    ObjectDropped,
    ResultTooLarge,
    StreamInterrupted,
    StreamPoisoned,
    SubscriptionCanceled,
    TidegateError,
)
from tidegate.subscribe.client.server_errors import server_error


@pytest.mark.parametrize(
    ("sqlstate", "message", "kind"),
    [
        ("42704", "relation 'm.public.t' was dropped", ObjectDropped),
        ("XX000", "subscribe has been terminated because underlying relation was dropped", ObjectDropped),
        ("53200", "", FellBehind),
        ("XX000", "total result exceeds max size of 1.1 GB", ResultTooLarge),
        ("22000", "Timestamp (1) is not valid for all inputs", HistoryLost),
        ("22000", "could not find a valid timestamp for the query", HistoryLost),
        ("22000", 'subscription lower ("as of") bound is beyond its upper', StreamPoisoned),
        ("57014", "", SubscriptionCanceled),
        ("57P01", "", StreamInterrupted),
        ("08006", "", StreamInterrupted),
        ("28P01", "", CredentialsExpired),
        ("22012", "division by zero", StreamPoisoned),
        ("", "", StreamPoisoned),
    ],
)
def test_a_code_is_an_error_of_its_own(sqlstate: str, message: str, kind: type[TidegateError]) -> None:
    error = server_error(sqlstate, message)
    assert type(error) is kind
    assert str(error) == message
