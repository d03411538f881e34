"""What every store of checkpoints does, as cases that the tests of each of them run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from tests.unit.client.subscribe.state.tables import frontier
from tidegate.client.subscribe.state.checkpoint import CheckpointStore, HeldCheckpoint
from tidegate.errors import Fenced
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.gate.feed_record import FeedPartition

#: Makes the store as another process would.
NewStore: TypeAlias = Callable[[], CheckpointStore]
#: Commits a token the way the store's users do.
Commit: TypeAlias = Callable[[HeldCheckpoint, str], None]
#: A token of a frontier with this wall time.
TokenOf: TypeAlias = Callable[[int], str]


def token_at(wall: int, partitions: int = 3, topic: str = "t") -> str:
    """A token of a frontier."""
    offsets = {FeedPartition(topic, number): 100 * wall + number for number in range(partitions)}
    return str(ResumeToken(frontier(wall), "991f8815e586e805b6968df6a016e478", offsets))


def at_once(held: HeldCheckpoint, token: str) -> None:
    """Where a commit needs nothing else."""
    held.commit(token)


def a_token_is_there_for_the_next_process(stores: NewStore, commit: Commit, token: TokenOf) -> None:
    first = stores().acquire("a name/with: signs")
    assert first.token is None
    for wall in (1, 2):
        commit(first, token(wall))
    again = stores().acquire("a name/with: signs")
    assert (again.name, again.token) == ("a name/with: signs", token(2))
    assert again.epoch > first.epoch
    for each in (first, again):
        each.close()


def names_are_apart(stores: NewStore, commit: Commit, token: TokenOf) -> None:
    one, other = stores().acquire("one"), stores().acquire("other")
    commit(one, token(1))
    commit(other, token(2))
    commit(one, token(3))
    found = [stores().acquire(name) for name in ("one", "other")]
    assert [each.token for each in found] == [token(3), token(2)]
    for each in (one, other, *found):
        each.close()


def an_older_holder_is_fenced_and_changes_nothing(stores: NewStore, commit: Commit, token: TokenOf) -> None:
    old = stores().acquire("n")
    commit(old, token(1))
    new = stores().acquire("n")
    for _ in range(2):
        with pytest.raises(Fenced, match="The checkpoint n is not held any more by this process"):
            commit(old, token(9))
    commit(new, token(2))
    with pytest.raises(Fenced):
        commit(old, token(9))
    last = stores().acquire("n")
    assert last.token == token(2)
    for each in (old, new, last):
        each.close()


CASES: Final[list[Callable[[NewStore, Commit, TokenOf], None]]] = [
    a_token_is_there_for_the_next_process,
    names_are_apart,
    an_older_holder_is_fenced_and_changes_nothing,
]


def named(case: Any) -> str:
    """The claim of a case."""
    name: str = case.__name__
    return name
