"""The bill of materials: the same file each time, with everything that is pinned."""

from __future__ import annotations

import json

import pytest

from stack.pinned import pinned
from stack.places import CHECKOUT
from supply.requirements import ALL, read
from supply.sbom import document


@pytest.mark.long
def test_it_is_the_same_text_each_time_and_tells_no_moment() -> None:
    text = document()
    assert text == document()
    assert not {"serialNumber", "dependencies"} & set(json.loads(text))
    assert "timestamp" not in json.loads(text)["metadata"]


@pytest.mark.long
def test_it_lists_everything_that_is_pinned_once() -> None:
    listed = [component["purl"] for component in json.loads(document())["components"]]
    jars = {jar for members in pinned().jars.values() for jar in members}
    packages = read(CHECKOUT / ALL)
    assert len(listed) == len(set(listed))
    assert len(listed) == len(packages) + len(jars) + len(pinned().archives) + 1  # and the flights
    assert {f"pkg:pypi/{pin.name}@{pin.version}" for pin in packages.values()} <= set(listed)
