"""Tests what a barrier makes of what row writers tell it, whatever kind of sink they write to."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

import tidegate.worker.output.barrier
from stack.places import CHECKOUT
from tidegate.delivery.refused_rows import DOUBTED_FOR_S
from tidegate.errors import RowDoubted, RowRefused
from tidegate.worker.output.barrier import Barrier, Unconfirmed

_REFUSED: Final = RowRefused("a table without that column")
_OUTPUT: Final = CHECKOUT / "tidegate" / "worker" / "output"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    with closing(found):
        yield found


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_until_complete(asyncio.sleep(0))


def test_a_batch_is_acknowledged_with_its_last_row(loop: asyncio.AbstractEventLoop) -> None:
    barrier, calls = Barrier(2, loop), list[str]()
    barrier.when_acknowledged(lambda: calls.append("called"))
    barrier.row_acknowledged()
    _turn(loop)
    assert (barrier.left, barrier.counts, calls) == (1, False, [])
    barrier.row_acknowledged()
    assert (barrier.counts, barrier.acknowledged.done()) == (True, False), "the loop has still to note it"
    _turn(loop)
    assert (barrier.acknowledged.done(), calls) == (True, ["called"])


def test_a_refused_row_is_never_acknowledged_and_the_first_refusal_is_kept(
    loop: asyncio.AbstractEventLoop,
) -> None:
    barrier = Barrier(2, loop)
    barrier.row_refused(_REFUSED)
    barrier.row_refused(RowRefused("another one"))
    barrier.row_acknowledged()
    _turn(loop)
    assert (barrier.refusal, barrier.left, barrier.acknowledged.done()) == (_REFUSED, 1, False)


def test_where_another_sink_may_be_at_the_address_nothing_counts_by_itself(
    loop: asyncio.AbstractEventLoop,
) -> None:
    told: list[Unconfirmed] = []
    taken, refused = Barrier(1, loop), Barrier(1, loop)
    for barrier in (taken, refused):
        barrier.require_confirmation(told.append)
    taken.row_acknowledged()
    refused.row_refused(_REFUSED)
    refused.row_refused(_REFUSED)
    _turn(loop)
    assert (taken.acknowledged.done(), refused.refusal) == (False, None)
    assert told == [(taken, None), (refused, _REFUSED)], "each was told once"
    for barrier, refusal in told:
        barrier.confirm(refusal)
    _turn(loop)
    assert (taken.acknowledged.done(), refused.refusal) == (True, _REFUSED)


def test_rows_that_begin_again_are_counted_anew_and_without_what_the_loop_has_not_heard(
    loop: asyncio.AbstractEventLoop,
) -> None:
    barrier = Barrier(1, loop)
    barrier.row_acknowledged()
    barrier.begin_again(2)
    _turn(loop)
    assert (barrier.left, barrier.counts, barrier.acknowledged.done()) == (2, False, False)
    barrier.row_acknowledged()
    barrier.forget(1)
    _turn(loop)
    assert barrier.acknowledged.done()


def test_a_row_that_is_doubted_is_refused_by_the_fifth_writer_that_had_such_an_answer(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidegate.worker.output.barrier, "DOUBTED_FOR_S", 0.0)
    barrier = Barrier(2, loop)
    for _ in range(4):
        barrier.row_refused(RowDoubted("no answer"))
        barrier.row_refused(RowDoubted("of the second row"))  # the same writer's
        barrier.begin_again(2)
    assert barrier.refusal is None
    barrier.begin_again(2)  # a writer that had no answer for these rows
    barrier.row_refused(RowDoubted("an odd answer"))
    assert "an odd answer. At least 5 producers had an answer like that" in str(barrier.refusal)
    assert not isinstance(barrier.refusal, RowDoubted)


def test_a_row_that_is_doubted_is_not_refused_before_a_while_has_passed(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(loop, "time", lambda: now)
    barrier = Barrier(1, loop)
    for _ in range(20):
        barrier.row_refused(RowDoubted("an odd answer"))
        barrier.begin_again(1)
    now += DOUBTED_FOR_S - 0.1
    barrier.row_refused(RowDoubted("an odd answer"))
    assert barrier.refusal is None
    now += 0.2
    barrier.row_refused(RowDoubted("an odd answer"))
    assert barrier.refusal is not None


def test_a_refusal_for_good_counts_behind_a_doubt(loop: asyncio.AbstractEventLoop) -> None:
    barrier = Barrier(2, loop)
    barrier.row_refused(RowDoubted("an odd answer"))
    barrier.row_refused(_REFUSED)
    assert barrier.refusal is _REFUSED


@pytest.mark.parametrize("module", ["barrier", "row_writer", "feed_row_writer", "outlet"])
def test_the_boundary_to_sinks_knows_no_kafka(module: str) -> None:
    """A sink of another kind has no client of Kafka's, and none of its errors to give."""
    tree = ast.parse((_OUTPUT / f"{module}.py").read_text())
    imports = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imports += [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    assert imports
    assert not [name for name in imports if name.startswith(("confluent_kafka", "tidegate.client"))]
