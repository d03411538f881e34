"""The frame of stored values: which versions are read, and what is said of all others."""

from __future__ import annotations

import pytest

from tidegate.errors import ForeignRecord, StateError, StateMismatch
from tidegate.processor.state import state_pb2 as pb
from tidegate.processor.state.stored_frame import (
    NEWER_RECORD,
    STATE_VERSION,
    is_readable,
    pack,
    require_readable,
    unpack,
    unpack_record,
)

_MESSAGE = pb.Range(start=b"a", end=b"z")
_BODY = _MESSAGE.SerializeToString()
_READ = (1, 2, 3)


@pytest.mark.parametrize("version", range(6))
def test_each_version_up_to_the_present_one_is_read(version: int) -> None:
    stored = bytes((version,)) + _BODY
    assert is_readable(stored) is (version in _READ)
    if version in _READ:
        require_readable(stored, "a row")
        assert unpack(pb.Range, stored, "a row") == _MESSAGE
        assert unpack_record(pb.Range, stored, "a record") == _MESSAGE
        assert pack(_MESSAGE, version) == stored
    else:
        newer = f"a row is stored in version {version}, but this worker reads version {STATE_VERSION}"
        with pytest.raises(StateError, match=newer):
            require_readable(stored, "a row")
        with pytest.raises(StateError, match=newer):
            unpack(pb.Range, stored, "a row")
        with pytest.raises(ForeignRecord, match=f"a record begins with 0{version}"):
            unpack_record(pb.Range, stored, "a record")


def test_a_value_without_a_version_is_not_read() -> None:
    assert not is_readable(b"")
    with pytest.raises(StateError, match="in version none"):
        require_readable(b"", "a row")
    with pytest.raises(ForeignRecord, match="begins with nothing"):
        unpack_record(pb.Range, b"", "a record")


def test_a_message_of_no_bytes_is_one() -> None:
    assert unpack(pb.Range, b"\x02", "a row") == unpack_record(pb.Range, b"\x02", "a record") == pb.Range()


def test_what_cannot_be_parsed_is_damaged_in_the_state_and_foreign_on_a_topic() -> None:
    with pytest.raises(StateMismatch, match="a row is damaged"):
        unpack(pb.Range, b"\x02\xff", "a row")
    with pytest.raises(ForeignRecord, match="a record cannot be parsed"):
        unpack_record(pb.Range, b"\x02\xff", "a record")


@pytest.mark.parametrize(("rest", "form"), [(b"", "none"), (b"\x07", "07"), (b"\x07rest", "07")])
def test_a_record_in_a_form_of_a_newer_version_asks_for_it(rest: bytes, form: str) -> None:
    with pytest.raises(StateError, match=rf"a record is in a form of a newer tidegate \({form}\)") as refused:
        unpack_record(pb.Range, NEWER_RECORD + rest, "a record")
    assert not isinstance(refused.value, StateMismatch | ForeignRecord)
