"""The file of a step: what is written is read, and a file that is something else is refused."""

from __future__ import annotations

import io
from contextlib import suppress
from random import Random

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.replay.steps import step_of
from tidegate.errors import InputError
from tidegate.processor.batch import StateTable
from tidegate.replay.step_file import decode_step, encode_step
from tidegate.replay.written_step import StepRecord, WrittenStep

_BYTES = st.binary(max_size=40)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_RECORDS = st.builds(StepRecord, _LONGS, st.none() | _BYTES, st.none() | _BYTES, _LONGS)
_ROWS = st.dictionaries(st.tuples(st.sampled_from(StateTable), _BYTES), _BYTES, max_size=5)


@pytest.mark.hypothesis
@given(st.integers(0, 63), _LONGS, _ROWS, st.lists(_RECORDS, max_size=5))
def test_what_is_written_is_read(
    partition: int, first: int, rows: dict[tuple[StateTable, bytes], bytes], records: list[StepRecord]
) -> None:
    step = WrittenStep(partition, 64, first, rows, tuple(records))
    assert decode_step(encode_step(step)) == step


def test_any_reader_of_avro_reads_it() -> None:
    step = step_of(1)
    reader = fastavro.reader(io.BytesIO(encode_step(step)))
    members = list(reader)
    assert len(members) == len(step.rows) + len(step.records)
    assert reader.metadata["tidegate.partitions"] == "1"


def test_a_damaged_file_is_refused_or_is_another_step() -> None:
    """No damage makes any other error than the named one."""
    random, whole = Random(20261128), encode_step(step_of(1))
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        with suppress(InputError):
            decode_step(bytes(damaged[: random.randint(1, len(damaged))]))
            continue
        refused += 1
    assert refused > 200


@pytest.mark.parametrize("data", [b"", b"{}", b"Obj\x01", bytes(1_000)])
def test_a_file_of_something_else_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="is not a step that `tidegate debug step --save` wrote"):
        decode_step(data)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"tidegate.step": "2"}, r"in format 2, and this version of tidegate reads 1"),
        ({"tidegate.partition": "4"}, r"of partition 4 of a log of 4 partitions"),
        ({"tidegate.first": "soon"}, r"not a step"),
    ],
)
def test_what_the_file_says_of_itself_has_to_make_sense(members: dict[str, str], told: str) -> None:
    said = {
        "tidegate.step": "1",
        "tidegate.partition": "0",
        "tidegate.partitions": "4",
        "tidegate.first": "0",
    }
    out = io.BytesIO()
    fastavro.writer(out, {"type": "string"}, [], metadata=said | members)
    with pytest.raises(InputError, match=told):
        decode_step(out.getvalue())
