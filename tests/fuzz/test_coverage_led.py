"""Fuzzing that coverage leads, by Atheris where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz import __main__ as command
from tests.fuzz import coverage_led
from tests.fuzz.campaign import Account, Budget
from tests.fuzz.coverage_led import run_led
from tests.fuzz.planted import TARGETS
from tests.fuzz.trial import Finding

_SEED: Final = 16
with_atheris: Final = pytest.mark.skipif(
    find_spec("atheris") is None, reason="Atheris is not installed (docs/security.md#fuzzing)"
)


def _led(name: str, inputs: int, heard: list[Finding]) -> Account:
    module = "tests.fuzz.planted"
    (account,) = run_led([TARGETS[name]], _SEED, Budget(inputs=inputs), heard.append, module, module)
    return account


@with_atheris
@pytest.mark.slow
def test_a_defect_behind_a_word_is_found_since_coverage_leads_there() -> None:
    heard: list[Finding] = []
    account = _led("word", 20_000, heard)
    assert [finding.what.partition(" (")[0] for finding in heard] == ["IndexError: 'planted'"]
    assert heard[0].data.startswith(b"planted!")
    assert list(account.findings.values()) == heard
    assert account.inputs >= 20_000


@with_atheris
@pytest.mark.slow
def test_an_input_that_ends_the_process_is_a_finding() -> None:
    heard: list[Finding] = []
    _led("ends", 1_000, heard)
    assert ["its process ended with status 3" in finding.what for finding in heard] == [True]


@with_atheris
@pytest.mark.slow
def test_a_sound_target_has_no_findings_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--engine", "atheris", "--target", "requests", "--inputs", "2000", "--findings", str(tmp_path)]
    assert command.main(asked) == 0
    assert "by Atheris: requests" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_without_atheris_the_mutators_are_taken_or_a_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(coverage_led, "find_spec", lambda _: None)
    asked = ["--target", "requests", "--inputs", "3", "--findings", str(tmp_path)]
    assert command.main(["--engine", "auto", *asked]) == 0
    assert "by mutators: requests" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["--engine", "atheris", *asked])
    assert "pip install atheris==3.0.0" in capsys.readouterr().err
