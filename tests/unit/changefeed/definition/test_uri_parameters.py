"""Sentences about unknown parameters: a hint from the first of them, and none of their names."""

from __future__ import annotations

from tidegate.changefeed.definition.uri_parameters import COMPARED_NAMES, unknown_parameters

_KNOWN = ("sasl_user", "topic_prefix")


def test_a_name_that_is_close_to_a_known_one_is_hinted_at() -> None:
    assert unknown_parameters("unknown", ["sasl_usr", "secret piece"], _KNOWN) == (
        "unknown: 2 of them. did you mean sasl_user? Known: sasl_user, topic_prefix"
    )


def test_a_bounded_number_of_names_is_compared_and_all_are_counted() -> None:
    others = [f"zzz{number}" for number in range(COMPARED_NAMES - 1)]
    assert "did you mean topic_prefix" in unknown_parameters("unknown", [*others, "topic_prefx"], _KNOWN)
    crowded = unknown_parameters("unknown", [*others, "zzz", "topic_prefx"], _KNOWN)
    assert crowded == "unknown: 21 of them. Known: sasl_user, topic_prefix"
