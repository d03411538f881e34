"""The behaviour of every store of checkpoints, as cases that the tests of each of them run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import pytest

from tests.unit.client.subscribe.state.tables import frontier
from tidegate.client.subscribe.state.checkpoint import CheckpointStore, HeldCheckpoint
from tidegate.errors import Fenced
from tidegate.subscribe.client.resume_token import ResumeToken
from tidegate.subscribe.gate.feed_record import FeedPartition

#: Makes the store as another process would.
NewStore: TypeAlias = Callable[[], CheckpointStore]
#: A token of a frontier with this wall time.
TokenOf: TypeAlias = Callable[[int], str]


class Use(NamedTuple):
    """The calls of a store's users: how they commit a token, and how they ask whether they may write a
    chunk."""

    commit: Callable[[HeldCheckpoint, str], None]
    require_held: Callable[[HeldCheckpoint], None]


def token_at(wall: int, partitions: int = 3, topic: str = "t") -> str:
    """A token of a frontier."""
    offsets = {FeedPartition(topic, number): 100 * wall + number for number in range(partitions)}
    return str(ResumeToken(frontier(wall), "991f8815e586e805b6968df6a016e478", offsets))


#: Where neither needs anything else.
AT_ONCE: Final = Use(lambda held, token: held.commit(token), lambda held: held.require_held())


def a_token_is_there_for_the_next_process(stores: NewStore, use: Use, token: TokenOf) -> None:
    first = stores().acquire("a name/with: signs")
    assert first.token is None
    for wall in (1, 2):
        use.commit(first, token(wall))
    again = stores().acquire("a name/with: signs")
    assert (again.name, again.token) == ("a name/with: signs", token(2))
    assert again.epoch > first.epoch
    for each in (first, again):
        each.close()


def names_are_apart(stores: NewStore, use: Use, token: TokenOf) -> None:
    one, other = stores().acquire("one"), stores().acquire("other")
    use.commit(one, token(1))
    use.commit(other, token(2))
    use.commit(one, token(3))
    found = [stores().acquire(name) for name in ("one", "other")]
    assert [each.token for each in found] == [token(3), token(2)]
    for each in (one, other, *found):
        each.close()


def an_older_holder_is_fenced_and_changes_nothing(stores: NewStore, use: Use, token: TokenOf) -> None:
    old = stores().acquire("n")
    use.commit(old, token(1))
    new = stores().acquire("n")
    for _ in range(2):
        with pytest.raises(Fenced, match="The checkpoint n is not held any more by this process"):
            use.commit(old, token(9))
    use.commit(new, token(2))
    with pytest.raises(Fenced):
        use.commit(old, token(9))
    last = stores().acquire("n")
    assert last.token == token(2)
    for each in (old, new, last):
        each.close()


def an_older_holder_may_write_no_chunk(stores: NewStore, use: Use, token: TokenOf) -> None:
    old = stores().acquire("n")
    use.require_held(old)
    use.commit(old, token(1))
    use.require_held(old)
    new = stores().acquire("n")
    assert new.token == token(1)
    for _ in range(2):
        with pytest.raises(Fenced, match="The checkpoint n is not held any more by this process"):
            use.require_held(old)
    use.require_held(new)
    use.commit(new, token(2))
    last = stores().acquire("n")
    assert last.token == token(2)
    for each in (old, new, last):
        each.close()


CASES: Final[list[Callable[[NewStore, Use, TokenOf], None]]] = [
    a_token_is_there_for_the_next_process,
    names_are_apart,
    an_older_holder_is_fenced_and_changes_nothing,
    an_older_holder_may_write_no_chunk,
]


def named(case: Any) -> str:
    """The claim of a case."""
    name: str = case.__name__
    return name
