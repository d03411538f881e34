"""Commands that need the service tree, where it is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.parametrize("command", [("worker",), ("sim", "run"), ("stack", "up", "kafka")], ids=" ".join)
def test_without_the_service_tree_a_command_that_needs_it_says_so(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """The package without what the wheel carries in it: no service tree can be imported."""
    (tmp_path / "tidegate").symlink_to(Path("tidegate").resolve())
    code = (  # the environment may name a checkout, this one or another
        "import os, sys\n"
        "checkouts = [p for p in sys.path if os.path.exists(os.path.join(p, 'app', 'main.py'))]\n"
        f"sys.path = [{str(tmp_path)!r}] + [p for p in sys.path if p and p not in checkouts]\n"
        "from tidegate.cli.main import main\n"
        f"sys.argv = ['tidegate', *{command!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert "needs tidegate's service tree" in done.stderr
    assert "Traceback" not in done.stderr
