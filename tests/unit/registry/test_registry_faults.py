"""Tests the few words for what a registry said, whatever it said."""

from __future__ import annotations

import base64
import tracemalloc

import pytest
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tidegate.changefeed.definition.registry_uri import parse_registry_uri
from tidegate.registry.registry_faults import _LOOKED_AT, Errand, RegistryFaults

ERRAND = Errand("the question", "it waits")
PASSWORD = "hush-hush-no-word"
FAULTS = RegistryFaults(parse_registry_uri(f"http://me:{PASSWORD}@h"))


def told(said: str) -> str:
    return str(FAULTS.of(ERRAND, SchemaRegistryError(500, 50001, said)))


@pytest.mark.parametrize("shown", range(len(PASSWORD) + 3))
def test_a_secret_that_stands_where_a_long_text_is_cut_does_not_show_in_part(shown: int) -> None:
    said = "Sorry," + " " * (_LOOKED_AT - shown - 6) + PASSWORD + " " * _LOOKED_AT
    text = told(said)
    assert "(500: Sorry," in text
    assert "..." in text
    assert PASSWORD[:1] not in text.partition("Sorry,")[2].partition(")")[0].replace("redacted", "")


def test_a_secret_in_the_middle_of_a_long_text_does_not_show() -> None:
    text = told(f"Sorry, {PASSWORD}! {'x' * 10 * _LOOKED_AT}")
    assert "(500: Sorry, redacted! xxx" in text


def test_a_token_in_the_place_of_a_user_does_not_show_as_text_or_as_a_header() -> None:
    faults = RegistryFaults(parse_registry_uri("http://token-of-ours@h"))
    header = base64.b64encode(b"token-of-ours:").decode()
    text = str(
        faults.of(ERRAND, SchemaRegistryError(401, 40101, f"token-of-ours: Basic {header} is unknown"))
    )
    assert "(401: redacted: Basic redacted is unknown" in text


def test_a_long_text_is_not_copied_to_be_told() -> None:
    said = "\x01" * (8 << 20)
    tracemalloc.start()
    try:
        told(said)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
