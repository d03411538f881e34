"""``make demo-chaos``, as short as its claim allows: it disturbs what it says it does, the audit passes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.soak]

_ROOT: Final = Path(__file__).parents[2]
#: A killed worker's partitions go to the others after six seconds, the session timeout: less than a quarter
#: of the time would have the next fault come before the last one was felt.
_SECONDS: Final = 28
_ENDS_S: Final = 400.0
_MOVED: Final = re.compile(r"The store split ranges (\d+) times, and merged some (\d+) times\.")
_OUT: Final = re.compile(
    r"([\d,]+) rows \([\d,]+ repeated\) of [\d,]+ keys and ([\d,]+) markers on (\d+) partitions"
)


@pytest.mark.timeout(500)
def test_workers_and_a_broker_that_die_while_ranges_move_leave_topics_that_pass_the_audit(
    tmp_path: Path,
) -> None:
    options = ["--seconds", _SECONDS, "--rate", 300, "--partitions", 4, "--every", 0.5, "--seed", 7]
    command = [sys.executable, "-m", "examples.demo.chaos", *map(str, options), "--runs", str(tmp_path)]
    demo = subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        text, _ = demo.communicate(timeout=_ENDS_S)
    finally:
        if demo.poll() is None:
            demo.send_signal(signal.SIGINT)  # it stops what it has started
            demo.wait(60)
    assert demo.returncode == 0, text
    assert "PASSED: the topics keep every rule that was checked" in text
    for disturbed in ("worker-1 is killed", "the broker is killed", "worker-2 is killed"):
        assert f"{disturbed}, and started again" in text
    moved, out = _MOVED.search(text), _OUT.search(text)
    assert moved is not None, text
    assert out is not None, text
    assert all(int(count) >= 5 for count in moved.groups()), text
    rows, markers, partitions = (int(count.replace(",", "")) for count in out.groups())
    assert rows > 1_000, text
    assert markers >= 2 * partitions, text
