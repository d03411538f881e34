"""A sample of the cases of long tests: each has its turn, and a seed gives the same sample again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import sampled

_TESTS = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(1, 5), st.integers(1, 20)))


def _cases(tests: dict[str, tuple[int, int]]) -> list[tuple[str, int, int]]:
    """Cases as (test, share, number)."""
    return [(name, share, number) for name, (share, count) in tests.items() for number in range(count)]


def _sampled(
    tests: dict[str, tuple[int, int]], seed: str
) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
    return sampled(_cases(tests), seed, lambda case: case[0], lambda case: case[1])


@given(tests=_TESTS, seed=st.text("01", max_size=8))
def test_of_each_test_with_several_cases_its_share_is_taken_and_one_at_least(
    tests: dict[str, tuple[int, int]], seed: str
) -> None:
    taken, left = _sampled(tests, seed)
    assert sorted([*taken, *left]) == sorted(_cases(tests))
    assert taken == [case for case in _cases(tests) if case in taken], "in their order"
    for name, (share, count) in tests.items():
        of_test = sum(case[0] == name for case in taken)
        if count > 1 or share == 1:
            assert of_test >= 1
            assert (of_test - 1) * share < count <= of_test * share


def test_a_test_with_one_case_is_taken_in_one_run_of_as_many_as_its_share_says() -> None:
    often = sum(bool(_sampled({"a": (4, 1)}, str(seed))[0]) for seed in range(1_000))
    assert 200 < often < 300


@given(tests=_TESTS, seed=st.text("01", max_size=8))
def test_a_seed_gives_the_same_sample_again(tests: dict[str, tuple[int, int]], seed: str) -> None:
    assert _sampled(tests, seed) == _sampled(tests, seed)


def test_over_some_runs_each_case_has_its_turn() -> None:
    tests = {"a": (4, 20), "b": (4, 3), "c": (4, 1)}
    taken = {case for seed in range(60) for case in _sampled(tests, str(seed))[0]}
    assert taken == {*_cases(tests)}
