"""The job of the peers, on the bytes of a feed."""

from __future__ import annotations

import pytest

from bench.peers import bytewax_peer, faust_peer, quix_peer, row_before
from bench.peers.row_before import with_row_before, without_row_before

_FIRST = b'{"after": {"id": 7, "note": "a"}, "updated": "1.0000000000"}'
_SECOND = b'{"after": {"id": 7, "note": ", \\"before\\": "}, "updated": "2.0000000000"}'


def test_the_first_row_of_a_key_has_none_before_it() -> None:
    value, row = with_row_before(_FIRST, None)
    assert value == b'{"after": {"id": 7, "note": "a"}, "before": null, "updated": "1.0000000000"}'
    assert row == b'{"id": 7, "note": "a"}'


def test_a_row_shows_the_one_that_it_replaces() -> None:
    _, row = with_row_before(_FIRST, None)
    value, _ = with_row_before(_SECOND, row)
    assert value == _SECOND.replace(b', "updated"', b', "before": {"id": 7, "note": "a"}, "updated"')


@pytest.mark.parametrize("value", [_FIRST, _SECOND])
def test_without_the_row_before_it_is_what_came(value: bytes) -> None:
    assert without_row_before(with_row_before(value, None)[0]) == value
    assert without_row_before(with_row_before(value, b'{"id": 6}')[0]) == value


@pytest.mark.parametrize("module", [bytewax_peer, faust_peer, quix_peer])
def test_every_peer_in_python_has_the_same_function(module: object) -> None:
    assert vars(module)["with_row_before"] is row_before.with_row_before


class _KeyState:
    """The state of one key as Quix Streams gives it."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get_bytes(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def set_bytes(self, name: str, value: bytes) -> None:
        self.kept[name] = value


class _Message:
    """A record as Bytewax gives it."""

    def __init__(self, value: bytes) -> None:
        self.key = b"[7]"
        self.value = value


def test_the_steps_of_the_peers_keep_the_newest_row() -> None:
    values, before, state = [], None, _KeyState()
    for record in (_FIRST, _SECOND, _FIRST):
        before, (key, value) = bytewax_peer.add_row_before(before, _Message(record))
        assert key == b"[7]"
        assert quix_peer.add_row_before(record, state) == value
        values.append(value)
    assert [value.count(b'"before": null, "updated"') for value in values] == [1, 0, 0]
    assert state.kept == {"row": before}
