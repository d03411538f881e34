"""The kernel of a partition: after a trap Python has the batch, and the next one has a new kernel."""

from __future__ import annotations

import pickle
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hand_log import HandTable, at
from tidegate.changefeed.definition.options import FeedOptions, Format
from tidegate.changefeed.encoding.encoder import row_templates
from tidegate.hlc import ZERO
from tidegate.kernel import partition_kernel
from tidegate.kernel.instance import Instance
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.partition_kernel import PartitionKernel, WasmKernels, kernels_for
from tidegate.kernel.plan import PLAN_BYTES_MAX, Plan, write_plan
from tidegate.kernel.traps import FIRST_REST, IN_A_ROW_MAX, Traps
from tidegate.processor.batch import SOURCE_HEADER, OutputRecord
from tidegate.processor.feeds.emitter import Destination
from tidegate.processor.feeds.row_kernel import LanePlan, TablePlan, Taken, VersionPlan
from tidegate.raftlog.entry import RaftIndex, RangeId, WriteValue
from tidegate.ranges.version import Version
from tidegate.rows import Kind, SqlType
from tidegate.rows.types import EnumMember

pytest.importorskip("wasmtime")

_TABLE = HandTable.of(104, "t", "id INT, v STRING, vec VECTOR(2)")
_OPTIONS = FeedOptions(updated=True)


def _version(op: WriteValue, index: int = 3) -> Version:
    return Version(op.key, op.timestamp, op.value or b"", None, False, RangeId(7), RaftIndex(index), 1)


def _plan(kernel: PartitionKernel) -> bool:
    templates = row_templates(_TABLE.descriptor, _OPTIONS)
    assert templates is not None
    lane = LanePlan(0, ZERO, Destination("t", 3), templates)
    return kernel.plan([TablePlan(104, ZERO, (VersionPlan(_TABLE.descriptor, ZERO, (lane,)),))])


def _kernel(traps: Traps | None = None) -> PartitionKernel:
    kernel = PartitionKernel(traps or Traps())
    assert _plan(kernel)
    return kernel


def _instance(kernel: PartitionKernel) -> Instance | None:
    return kernel._instance


def _taken(kernel: PartitionKernel, *versions: Version) -> Taken:
    taken = kernel.make_records(versions)
    assert taken is not None
    return taken


def test_a_row_becomes_the_record_of_its_feed() -> None:
    taken = _taken(_kernel(), _version(_TABLE.put(2, 5, "x", None)))
    updated = at(2).decimal().encode()
    value = b'{"after": {"id": 5, "v": "x", "vec": null}, "updated": "' + updated + b'"}'
    record = OutputRecord("t", 1, b"[5]", value, at(2).wall_ms, [(SOURCE_HEADER, b"7/3/1")])
    assert taken.feeds[0].records == [record._replace(partition=taken.feeds[0].records[0].partition)]
    assert (taken.refused, taken.highs) == ([], {104: at(2)})


def test_a_version_without_an_op_has_no_source() -> None:
    taken = _taken(_kernel(), _version(_TABLE.put(2, 5, "x", None), index=0))
    assert taken.feeds[0].records[0].headers == []


def test_rows_that_only_python_reads_come_back_by_number() -> None:
    vector = _TABLE.put(3, 6, "y", (1.0, 2.0))
    taken = _taken(
        _kernel(), _version(_TABLE.put(2, 5, "x", None)), _version(vector), _version(_TABLE.delete(4, 5))
    )
    assert taken.refused == [1]
    assert taken.feeds[0].numbers == [0, 2]
    assert taken.highs == {104: at(4)}


def test_large_batches_are_given_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = [_version(_TABLE.put(number, number, "x" * number, None)) for number in range(1, 40)]
    whole = _taken(_kernel(), *versions)
    monkeypatch.setattr(partition_kernel, "CALL_BYTES_MAX", 100)
    assert _taken(_kernel(), *versions) == whole


def test_a_trap_gives_the_batch_to_python_and_the_next_one_has_a_new_kernel() -> None:
    traps = Traps()
    kernel = _kernel(traps)
    good = _version(_TABLE.put(2, 5, "x", None))
    before = _taken(kernel, good)
    instance = kernel._instance
    assert instance is not None
    instance._rows = lambda *_: 2**32 - 8  # it names bytes outside its memory
    assert kernel.make_records([good]) is None
    assert traps.count == 1
    assert _taken(kernel, good) == before


def test_an_instance_whose_memory_has_grown_is_given_up_after_its_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition_kernel, "MEMORY_BYTES_KEPT", 8 << 20)
    traps = Traps()
    kernel = _kernel(traps)
    small = _version(_TABLE.put(2, 5, "x", None))
    before = _taken(kernel, small)
    kept = _instance(kernel)
    assert kept is not None
    assert _taken(kernel, small) == before
    assert _instance(kernel) is kept
    _taken(kernel, _version(_TABLE.put(3, 6, "x" * (8 << 20), None)))
    assert _instance(kernel) is None
    assert _taken(kernel, small) == before
    assert traps.count == 0


def test_a_version_that_does_not_fit_in_a_message_is_pythons() -> None:
    traps = Traps()
    kernel = _kernel(traps)
    assert kernel.make_records([_version(_TABLE.put(2, 5, "x", None))._replace(ordinal=2**40)]) is None
    assert traps.count == 1


def _reserved() -> int:
    """The bytes of addresses that this process reserves."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell the addresses of a process otherwise")
@pytest.mark.parametrize("way", ["trap", "plan", "growth"])
def test_an_instance_that_is_given_up_gives_its_memory_back_at_once(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What holds it, such as the traceback of its trap, is found by the collector only later."""
    kernel, row = _kernel(Traps()), _version(_TABLE.put(2, 5, "x", None))
    _taken(kernel, row)
    instance, before = _instance(kernel), _reserved()
    assert instance is not None
    match way:
        case "trap":
            monkeypatch.setattr(instance, "_rows", lambda *_: 2**32 - 8)
            assert kernel.make_records([row]) is None
        case "plan":
            assert _plan(kernel)
        case "growth":
            monkeypatch.setattr(partition_kernel, "MEMORY_BYTES_KEPT", 0)
            _taken(kernel, row)
    assert _instance(kernel) is None
    assert before - _reserved() > 1 << 30


@contextmanager
def _without_addresses() -> Iterator[None]:
    """This process may reserve 1 GiB of addresses more."""
    reserved = _reserved()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (reserved + (1 << 30), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound the addresses of a process")
def test_a_partition_without_room_for_a_kernel_is_pythons_until_the_next_plan(
    caplog: pytest.LogCaptureFixture,
) -> None:
    traps = Traps()
    kernel = _kernel(traps)
    row = _version(_TABLE.put(2, 5, "x", None))
    with _without_addresses():
        assert kernel.make_records([row]) is None
        assert "mmap failed to reserve" in caplog.text
    assert kernel.make_records([row]) is None
    assert traps.count == 0
    assert _plan(kernel)
    assert _taken(kernel, row) == _taken(_kernel(), row)


def test_a_plan_that_cannot_be_written_leaves_everything_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    traps = Traps()
    kernel = _kernel(traps)
    with monkeypatch.context() as patch:
        patch.setattr(partition_kernel, "write_plan", lambda _: 1 / 0)
        assert not kernel.plan([TablePlan(104, ZERO, ())])
    assert traps.count == 1
    assert _kernel(traps).make_records([_version(_TABLE.put(2, 5, "x", None))]) is not None


def test_a_kernel_that_breaks_again_and_again_rests_alone_and_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    traps, row = Traps(), _version(_TABLE.put(2, 5, "x", None))
    broken, other = _kernel(traps), _kernel(traps)
    with monkeypatch.context() as patch:
        patch.setattr(Instance, "rows", lambda *_: 1 / 0)
        for _ in range(IN_A_ROW_MAX):
            assert broken.make_records([row]) is None
    assert traps.count == IN_A_ROW_MAX
    assert all(broken.make_records([row]) is None for _ in range(FIRST_REST))
    assert _taken(broken, row) == _taken(other, row)
    assert traps.count == IN_A_ROW_MAX


def _long_names(lanes: int) -> tuple[HandTable, TablePlan]:
    """A table whose rows have 200,000 bytes in each of so many lanes, and its plan."""
    columns = _TABLE.descriptor.columns
    long = tuple(replace(column, name=column.name[0] * 100_000) for column in columns[:2])
    table = HandTable(replace(_TABLE.descriptor, columns=(*long, columns[2])))
    templates = row_templates(table.descriptor, _OPTIONS)
    assert templates is not None
    planned = tuple(LanePlan(feed, ZERO, Destination("t", 3), templates) for feed in range(lanes))
    return table, TablePlan(104, ZERO, (VersionPlan(table.descriptor, ZERO, planned),))


def _short_names() -> TablePlan:
    templates = row_templates(_TABLE.descriptor, _OPTIONS)
    assert templates is not None
    lane = LanePlan(0, ZERO, Destination("u", 3), templates)
    return TablePlan(103, ZERO, (VersionPlan(replace(_TABLE.descriptor, id=103), ZERO, (lane,)),))


def test_rows_that_are_too_many_for_a_call_are_pythons_and_no_trap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one entry of the log may make them: 5 KB in the log are 800 MB of rows here."""
    traps = Traps()
    kernel = PartitionKernel(traps)
    table, plan = _long_names(20)
    assert kernel.plan([plan])
    versions = [_version(table.put(2, number, "x", None)) for number in range(200)]
    monkeypatch.setattr(partition_kernel, "CALL_BYTES_MAX", 1 << 40)
    assert kernel.make_records(versions) is None
    assert kernel.make_records(versions) is None
    assert traps.count == 0
    assert [len(feed.records) for feed in _taken(kernel, *versions[:10]).feeds.values()] == [10] * 20


def test_a_lack_of_memory_is_no_trap(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("tidegate.kernel.instance.MEMORY_BYTES_MAX", 8 << 20)
    traps = Traps()
    kernel = _kernel(traps)
    small = _version(_TABLE.put(2, 5, "x", None))
    assert kernel.make_records([_version(_TABLE.put(3, 6, "x" * (8 << 20), None))]) is None
    assert traps.count == 0
    (record,) = caplog.records
    assert "needs more memory than it gets" in record.getMessage()
    assert _taken(kernel, small) == _taken(_kernel(), small)


def test_a_plan_has_bounded_bytes_and_what_finds_no_room_is_pythons() -> None:
    (table, long), short = _long_names(400), _short_names()
    written = write_plan([short, long])
    assert len(written.data) < 100_000
    assert [each.topic for each in written.lanes] == ["u"]
    traps = Traps()
    kernel = PartitionKernel(traps)
    assert kernel.plan([short, long])
    assert _taken(kernel, _version(table.put(2, 5, "x", None))).refused == [0]
    assert traps.count == 0


def test_a_plan_counts_the_labels_of_the_key() -> None:
    """An enum of the key stands in it five times: in the key, in the columns, and in three templates."""
    first, *others = _TABLE.descriptor.columns

    def written(labels: int) -> Plan:
        members = tuple(EnumMember(bytes((number,)), "l" * 1_000_000) for number in range(labels))
        key = replace(first, type=SqlType(Kind.ENUM, name="e", members=members))
        table = replace(_TABLE.descriptor, columns=(key, *others))
        templates = row_templates(table, _OPTIONS)
        assert templates is not None
        lane = LanePlan(0, ZERO, Destination("t", 3), templates)
        return write_plan([TablePlan(104, ZERO, (VersionPlan(table, ZERO, (lane,)),))])

    assert 5 * 13_000_000 < len(written(13).data) <= PLAN_BYTES_MAX
    assert not written(15).lanes


def test_a_column_with_a_large_id_takes_no_more_memory_than_others() -> None:
    """52 KB of descriptors, one column of which has the id 65,535, took more than the kernel gets."""
    first, second, _ = _TABLE.descriptor.columns
    sparse = replace(_TABLE.descriptor, columns=(first, replace(second, id=65_535)))
    templates = row_templates(sparse, _OPTIONS)
    assert templates is not None
    lane = LanePlan(0, ZERO, Destination("t", 3), templates)
    versions = tuple(VersionPlan(sparse, at(second), (lane,)) for second in range(450))
    kernel = PartitionKernel(traps := Traps())
    assert kernel.plan([TablePlan(104, ZERO, versions)])
    taken = _taken(kernel, _version(HandTable(sparse).put(500, 5, "x")))
    assert taken.feeds[0].records[0].key == b"[5]"
    instance = _instance(kernel)
    assert instance is not None
    assert instance.memory_bytes < 16 << 20
    assert traps.count == 0


@pytest.mark.parametrize("encoding", [Format.JSON, Format.AVRO])
def test_text_of_arrays_is_bounded_while_it_is_made(encoding: Format) -> None:
    """Two bytes of each element stand for a label of 20,000: 120 KB in the log were 1.2 GB here."""
    label = SqlType(Kind.ENUM, name="e", members=(EnumMember(b"\x80", "l" * 20_000),))
    first, second, _ = _TABLE.descriptor.columns
    columns = (first, replace(second, type=SqlType(Kind.ARRAY, element=label)))
    table = HandTable(replace(_TABLE.descriptor, columns=columns))
    registry = "http://registry" if encoding is Format.AVRO else ""
    templates = row_templates(
        table.descriptor, FeedOptions(format=encoding, confluent_schema_registry=registry)
    )
    assert templates is not None
    lane = LanePlan(0, ZERO, Destination("t", 3), templates)
    kernel = PartitionKernel(traps := Traps())
    assert kernel.plan([TablePlan(104, ZERO, (VersionPlan(table.descriptor, ZERO, (lane,)),))])
    long = _version(table.put(2, 5, ("l" * 20_000,) * 60_000))
    short = _version(table.put(3, 6, ("l" * 20_000,)))
    taken = _taken(kernel, long, short)
    assert (taken.refused, taken.feeds[0].numbers) == ([0], [1])
    instance = _instance(kernel)
    assert instance is not None
    assert instance.memory_bytes < 128 << 20
    assert traps.count == 0


@pytest.mark.long
def test_a_plan_with_all_the_bytes_that_it_may_have_leaves_room_for_rows() -> None:
    (_, long), short = _long_names(300), _short_names()
    written = write_plan([short, long])
    assert len(written.lanes) == 301
    assert 0.8 * PLAN_BYTES_MAX < len(written.data) <= PLAN_BYTES_MAX
    kernel = _kernel(traps := Traps())
    assert kernel.plan([short, long])
    row = _version(HandTable(replace(_TABLE.descriptor, id=103)).put(2, 5, "x", None))
    assert len(_taken(kernel, row).feeds[0].records) == 1
    assert _instance(kernel) is not None  # not given up: the plan is not told with each batch
    assert traps.count == 0


def test_kernels_can_be_sent_to_another_process() -> None:
    kernels = kernels_for(KernelMode.CHECK)
    assert pickle.loads(pickle.dumps(kernels)) == WasmKernels(KernelMode.CHECK)
    assert kernels_for(KernelMode.OFF) is None


@pytest.mark.long
def test_many_feeds_on_one_table_do_not_fill_the_kernel() -> None:
    templates = row_templates(_TABLE.descriptor, _OPTIONS)
    assert templates is not None
    lanes = tuple(LanePlan(feed, ZERO, Destination("t", 3), templates) for feed in range(8))
    traps = Traps()
    kernel = PartitionKernel(traps)
    assert kernel.plan([TablePlan(104, ZERO, (VersionPlan(_TABLE.descriptor, ZERO, lanes),))])
    versions = [_version(_TABLE.put(2, number, "\x01" * 200_000, None)) for number in range(20)]
    taken = _taken(kernel, *versions)
    assert [len(feed.records) for feed in taken.feeds.values()] == [20] * 8
    assert traps.count == 0
