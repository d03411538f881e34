"""Rows and frozen state changes are the same with the kernel and without it, step by step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final

import pytest

from tests.examples import seeds
from tests.unit.kernel.gap_histories import GapLockstep
from tests.unit.kernel.histories import Form, Lockstep, history
from tests.unit.kernel.log_histories import log_history
from tests.unit.kernel.planted import (
    PLANTED_AMID_GAPS,
    PLANTED_IN_CONNECT,
    PLANTED_IN_DECODING,
    PLANTED_IN_LOGS,
    PLANTED_IN_ROWS,
    PLANTED_IN_SCANS,
)
from tidegate.errors import StateError
from tidegate.kernel import partition_kernel
from tidegate.kernel.followed_records import FOLLOWED
from tidegate.kernel.instance import Instance
from tidegate.kernel.kernel_mode import KernelMode
from tidegate.kernel.traps import TRAPS, Traps
from tidegate.processor.feeds import plan_credit
from tidegate.processor.feeds.plan_credit import PlanCredit
from tidegate.processor.plain_records import PlainRecords

pytest.importorskip("wasmtime")

#: Enough that the kernel writes rows of each kind, and refuses rows for each reason.
_SEEDS: Final = 40
#: Histories of gaps take longest: so many of them in `make test`, all in `make soak`.
_GAP_SEEDS: Final = (*range(16), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(16, _SEEDS)))
#: Enough that kernels write what scans find in each form.
_SCAN_SEEDS: Final = 60
#: Enough that rows and keys of each type have each form of Kafka Connect.
_CONNECT_SEEDS: Final = 40
#: Enough that calls of each kind trap between others that go well, with rows of both.
_TRAPPING_SEEDS: Final = 8


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(_SEEDS))
def test_random_histories_give_the_same_steps(seed: int) -> None:
    print(f"seed {seed}")
    traps = TRAPS.count
    Lockstep().run(history(seed))
    assert TRAPS.count == traps


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(_SEEDS))
def test_random_logs_give_the_same_steps(seed: int) -> None:
    print(f"seed {seed}")
    traps, followed = TRAPS.count, FOLLOWED.count
    Lockstep().run(log_history(seed))
    assert TRAPS.count == traps
    assert FOLLOWED.count > followed


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", _GAP_SEEDS)
def test_random_logs_give_the_same_steps_while_feeds_miss_versions(seed: int) -> None:
    print(f"seed {seed}")
    traps = TRAPS.count
    GapLockstep().run_seed(seed)
    assert TRAPS.count == traps


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, _SCAN_SEEDS, 10))
def test_scans_of_many_rows_give_the_same_steps(first: int) -> None:
    print(f"seeds {first} to {first + 9}")
    traps = TRAPS.count
    for seed in range(first, first + 10):
        GapLockstep().run_scans(seed)
    assert TRAPS.count == traps


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(_CONNECT_SEEDS))
def test_rows_with_the_types_of_kafka_connect_give_the_same_steps(seed: int) -> None:
    print(f"seed {seed}")
    traps = TRAPS.count
    Lockstep().run(history(seed, form=Form.CONNECT))
    GapLockstep().run_scans(seed, Form.CONNECT)
    assert TRAPS.count == traps


@pytest.mark.parametrize("seed", range(10))
def test_random_histories_give_the_same_steps_where_the_log_is_not_followed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    monkeypatch.setattr(PlainRecords, "_can_follow", lambda _: False)
    Lockstep().run(history(seed))


@pytest.mark.parametrize("free", [0, 3])
def test_random_histories_give_the_same_steps_where_plans_have_to_be_earned(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes rows until they have, in the midst of a batch too."""
    monkeypatch.setattr(plan_credit, "_FREE", free)
    monkeypatch.setattr(PlanCredit, "grant", lambda *_: None)
    refused: list[int] = []
    pays = PlanCredit.pays

    def noted(credit: PlanCredit, lanes: int) -> bool:
        paid = pays(credit, lanes)
        refused.append(not paid)
        return paid

    monkeypatch.setattr(PlanCredit, "pays", noted)
    for seed in seeds(10):
        print(f"seed {seed}")
        Lockstep().run(history(seed))
        Lockstep().run(log_history(seed))
        GapLockstep().run_seed(seed)
    assert sum(refused) > 20


@pytest.mark.long
def test_checked_logs_find_nothing() -> None:
    for seed in seeds(10):
        Lockstep(KernelMode.CHECK).run(log_history(seed))


@pytest.mark.long
def test_checked_steps_find_nothing_while_feeds_miss_versions() -> None:
    for seed in seeds(10):
        GapLockstep(KernelMode.CHECK).run_seed(seed)


def test_checked_steps_find_nothing() -> None:
    lockstep = Lockstep(KernelMode.CHECK)
    lockstep.run(history(1))
    assert lockstep.rows


@pytest.mark.parametrize(
    "broken",
    ["tidegate.kernel.partition_kernel.write_plan", "tidegate.processor.feeds.feed_kernels.row_templates"],
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
    assert bool(traps.count) == broken.endswith("write_plan")


def _trapping_every_other(call: str, monkeypatch: pytest.MonkeyPatch) -> Traps:
    """Have every other call of this kind trap. Returns what counts the traps."""
    traps = Traps()
    monkeypatch.setattr(partition_kernel, "TRAPS", traps)
    original, calls = getattr(Instance, call), count()

    def trapping(*arguments: Any) -> Any:
        if next(calls) % 2:
            raise RuntimeError("wasm trap: unreachable")
        return original(*arguments)

    monkeypatch.setattr(Instance, call, trapping)
    return traps


@pytest.mark.long
@pytest.mark.parametrize("call", ["read", "follow", "rows"])
def test_traps_between_batches_that_go_well_change_no_step(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    traps = _trapping_every_other(call, monkeypatch)
    for seed in range(_TRAPPING_SEEDS):
        Lockstep().run(log_history(seed))
        Lockstep().run(history(seed))
    assert traps.count


@pytest.mark.parametrize("call", ["follow", "rows", "versions"])
def test_traps_while_feeds_miss_versions_change_no_step(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traps = _trapping_every_other(call, monkeypatch)
    for seed in range(4):
        GapLockstep().run_seed(seed)
    assert traps.count


# ---- planted differences: each must be found by the seeds above ----


def _is_found(run: Callable[[int], None], seeds: int) -> bool:
    """Whether the run of any of the seeds sees a difference."""
    for seed in range(seeds):
        try:
            run(seed)
        except AssertionError:
            return True
    return False


@pytest.mark.sampled(4)
@pytest.mark.long
@pytest.mark.parametrize("stage", PLANTED_IN_ROWS)
def test_a_planted_difference_is_found(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED_IN_ROWS[stage](monkeypatch)
    assert _is_found(lambda seed: Lockstep().run(history(seed)), _SEEDS)


@pytest.mark.sampled(4)
@pytest.mark.long
@pytest.mark.parametrize("stage", PLANTED_IN_CONNECT)
def test_a_difference_planted_in_the_types_of_kafka_connect_is_found(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PLANTED_IN_CONNECT[stage](monkeypatch)
    assert _is_found(lambda seed: Lockstep().run(history(seed, form=Form.CONNECT)), _CONNECT_SEEDS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stage", [*PLANTED_IN_DECODING, *PLANTED_IN_LOGS])
def test_a_difference_planted_in_following_is_found(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (PLANTED_IN_DECODING | PLANTED_IN_LOGS)[stage](monkeypatch)
    assert _is_found(lambda seed: Lockstep().run(log_history(seed)), _SEEDS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stage", PLANTED_AMID_GAPS)
def test_a_difference_planted_where_feeds_miss_versions_is_found(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    PLANTED_AMID_GAPS[stage](monkeypatch)
    assert _is_found(lambda seed: GapLockstep().run_seed(seed), _SEEDS)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("stage", PLANTED_IN_SCANS)
def test_a_difference_planted_in_scans_is_found(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED_IN_SCANS[stage](monkeypatch)
    assert _is_found(lambda seed: GapLockstep().run_scans(seed), _SCAN_SEEDS)


def _check_all() -> None:
    for seed in range(_SEEDS):
        Lockstep(KernelMode.CHECK).run(history(seed))


def test_a_checked_step_ends_with_an_error_that_shows_the_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED_IN_ROWS["the text around datums"](monkeypatch)
    with pytest.raises(StateError, match=r"the kernel and Python differ in records of feed .* by Python"):
        _check_all()
