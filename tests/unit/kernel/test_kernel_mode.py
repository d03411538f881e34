"""``TIDEGATE_KERNEL`` is on unless it says otherwise."""

from __future__ import annotations

import pytest

from tidegate.errors import SettingsError
from tidegate.kernel.kernel_mode import KernelMode, kernel_mode


@pytest.mark.parametrize(
    ("word", "mode"),
    [("", KernelMode.ON), ("off", KernelMode.OFF), ("ON", KernelMode.ON), (" check ", KernelMode.CHECK)],
)
def test_the_variable_names_a_mode(word: str, mode: KernelMode) -> None:
    assert kernel_mode({"TIDEGATE_KERNEL": word}) is mode


def test_without_the_variable_the_kernel_is_on() -> None:
    assert kernel_mode({}) is KernelMode.ON


def test_another_word_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match="TIDEGATE_KERNEL is 'fast'; it may be one of off, on, check"):
        kernel_mode({"TIDEGATE_KERNEL": "fast"})
