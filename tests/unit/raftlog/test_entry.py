"""Tests what a command says of the data that it changed outside the op log."""

from __future__ import annotations

import pytest

from tidegate.raftlog.entry import Command, Generation, RaftIndex, RangeId, Trigger
from tidegate.spans import Span

_RANGE = Span(b"a", b"z")
_SOME = Span(b"c", b"d")


def _command(trigger: Trigger, mutated: tuple[Span, ...] = ()) -> Command:
    return Command(RangeId(1), Generation(1), RaftIndex(1), (), None, trigger, b"", mutated)


@pytest.mark.parametrize("trigger", [Trigger.ADD_SSTABLE, Trigger.HISTORY_MUTATION])
def test_a_change_outside_the_op_log_is_where_the_command_says_or_anywhere(trigger: Trigger) -> None:
    assert _command(trigger).mutates
    assert _command(trigger, (_SOME,)).mutated_spans((_RANGE,)) == (_SOME,)
    assert _command(trigger).mutated_spans((_RANGE,)) == (_RANGE,)


@pytest.mark.parametrize("trigger", [Trigger.NONE, Trigger.SPLIT, Trigger.MERGE])
def test_any_other_command_changes_nothing_outside_the_op_log(trigger: Trigger) -> None:
    assert not _command(trigger).mutates
    assert _command(trigger).mutated_spans((_RANGE,)) == ()
