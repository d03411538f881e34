"""``make demo-spark CLUSTER=1``, as short as its claim allows: query and loader run on a cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from stack.places import CHECKOUT
from tests.spark_session import skip_without_java

pytestmark = [pytest.mark.broker, pytest.mark.soak]

_ENDS_S: Final = 540.0
_LOADED: Final = re.compile(
    r"_board_(\w+) has ([\d,]+) rows at .*; at (\d+) closed buckets 0 versions differ"
)


@pytest.mark.timeout(600)
def test_tables_that_a_cluster_has_made_are_those_of_the_store(tmp_path: Path) -> None:
    skip_without_java()
    command = [sys.executable, "-m", "examples.demo.spark", "--cluster", "--seconds", "20", "--rate", "300"]
    paths = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    demo = subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        text, _ = demo.communicate(timeout=_ENDS_S)
    finally:
        if demo.poll() is None:
            demo.send_signal(signal.SIGINT)  # it stops what it has started
            demo.wait(60)
    assert demo.returncode == 0, text
    assert "Spark runs at spark://127.0.0.1:" in text
    assert "PASSED: the topics keep every rule that was checked" in text
    loaded = {
        table: (int(rows.replace(",", "")), int(buckets)) for table, rows, buckets in _LOADED.findall(text)
    }
    assert set(loaded) == {"flights", "weather"}, text
    assert all(rows > 0 and buckets > 0 for rows, buckets in loaded.values()), text
