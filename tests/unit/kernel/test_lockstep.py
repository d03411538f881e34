"""Rows and frozen state changes are the same with the kernel and without it, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack
from typing import Any, Final

import pytest

from tests.unit.kernel.histories import Lockstep, history
from tests.unit.kernel.log_histories import log_history
from tidegate.changefeed.encoding.json.template import literals
from tidegate.errors import StateError
from tidegate.kernel import message, plan
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.traps import TRAPS, Traps
from tidegate.processor.feeds.row_kernel import LanePlan
from tidegate.ranges.version import Version
from tidegate.rows import Kind

pytest.importorskip("wasmtime")

#: Enough that the kernel writes rows of each kind, and refuses rows for each reason.
_SEEDS: Final = 40


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_random_histories_give_the_same_steps(seed: int) -> None:
    print(f"seed {seed}")
    traps = TRAPS.count
    Lockstep().run(history(seed))
    assert TRAPS.count == traps


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_random_logs_give_the_same_steps(seed: int) -> None:
    print(f"seed {seed}")
    traps = TRAPS.count
    Lockstep().run(log_history(seed))
    assert TRAPS.count == traps


def test_checked_logs_find_nothing() -> None:
    for seed in range(10):
        Lockstep(KernelMode.CHECK).run(log_history(seed))


def test_checked_steps_find_nothing() -> None:
    lockstep = Lockstep(KernelMode.CHECK)
    lockstep.run(history(1))
    assert lockstep.rows


@pytest.mark.parametrize(
    "broken",
    ["tidegate.kernel.partition_kernel.write_plan", "tidegate.processor.feeds.kernel_rows.row_templates"],
)
def test_a_defect_in_the_planning_leaves_the_step_to_python(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = Traps()
    monkeypatch.setattr("tidegate.kernel.partition_kernel.TRAPS", traps)

    def fail(*_: object) -> Any:
        raise RuntimeError("a defect")

    monkeypatch.setattr(broken, fail)
    for seed in range(3):
        Lockstep().run(history(seed))
    assert traps.is_off == broken.endswith("write_plan")


# ---- planted differences: each must be found by the seeds above ----


def _other_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plan._NUMBERS, Kind.TIMESTAMPTZ, plan._NUMBERS[Kind.TIMESTAMP])


def _other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "literals", lambda member: [*literals(member)[:-1], "] "])


def _other_lane(change: Callable[[LanePlan], LanePlan]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        lane = plan._lane
        monkeypatch.setattr(plan, "_lane", lambda of, *rest: lane(change(of), *rest))

    return plant


def _other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def modified_later(version: Any, lanes: list[Any]) -> bytes:
        written: bytes = version_of(version, lanes)
        wall, logical = version.table.modified
        return pack("<2q", wall + 7 * 10**9, logical) + written[16:]

    version_of = plan._version
    monkeypatch.setattr(plan, "_version", modified_later)


def _with_versions(change: Callable[[Version], Version]) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        def write(versions: Sequence[Version]) -> bytes:
            return write_versions([change(version) for version in versions])

        write_versions = message.write_versions
        monkeypatch.setattr("tidegate.kernel.partition_kernel.write_versions", write)

    return plant


def _no_highs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.processor.feeds.kernel_rows.BatchEmission.raise_highs", lambda *_: None)


def _as_deleted(lane: LanePlan) -> LanePlan:
    return lane._replace(templates=lane.templates._replace(row=lane.templates.deletion))


_PLANTED: Final[dict[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "a column is read or printed as another kind": _other_kind,
    "the text around datums": _other_text,
    "the partition": _other_lane(lambda lane: lane._replace(to=lane.to._replace(partitions=7))),
    "the start of a feed": _other_lane(lambda lane: lane._replace(start=lane.start.prev())),
    "the template of a row": _other_lane(_as_deleted),
    "the version of a table": _other_version,
    "the time of a row": _with_versions(lambda version: version._replace(timestamp=version.timestamp.next())),
    "where a row came from": _with_versions(lambda version: version._replace(ordinal=version.ordinal + 1)),
    "what its writer wants omitted": _with_versions(
        lambda version: version._replace(omit_in_rangefeeds=False)
    ),
    "the highest time of a table": _no_highs,
}


@pytest.mark.parametrize("stage", _PLANTED)
def test_a_planted_difference_is_found(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _PLANTED[stage](monkeypatch)
    found = False
    for seed in range(_SEEDS):
        try:
            Lockstep().run(history(seed))
        except AssertionError:
            found = True
            break
    assert found


def _check_all() -> None:
    for seed in range(_SEEDS):
        Lockstep(KernelMode.CHECK).run(history(seed))


def test_a_checked_step_ends_with_an_error_that_shows_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _other_text(monkeypatch)
    with pytest.raises(StateError, match=r"the kernel and Python differ in records of feed .* by Python"):
        _check_all()
