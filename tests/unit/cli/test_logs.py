"""Lines of commands hide what the process has used as a secret, also in the trace of an exception."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import logging
from tidegate.cli.logs import configure_logs
from tidegate.redaction import remember_secret
configure_logs()
remember_secret("wordpass")
try:
    raise KeyError("wordpass")
except KeyError as error:
    logging.getLogger("tidegate.serve").error("a command met %r", error, exc_info=error)
logging.getLogger("tidegate.serve").warning("it says %s", "\\x1b[2J")
logging.getLogger("tidegate.serve").info("not told")
"""


def test_a_trace_shows_no_secret() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert "wordpass" not in done.stderr
    assert "a command met KeyError('redacted')" in done.stderr
    assert "Traceback" in done.stderr
    assert "not told" not in done.stderr
    assert "it says \\u001b[2J" in done.stderr, "no line steers a terminal"
