"""Tests what commands print, on a terminal and in a pipe."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
from typing import Final

from stack.places import CHECKOUT

_CLI: Final = CHECKOUT / "tidegate" / "cli"
#: What puts text on a terminal.
_PRINTS: Final = {"click.echo", "click.secho", "print", "Console", "track", "Live"}
#: Beside `printing`: each of these gives what is of others to ``shown_text`` first, or has nothing of others.
_WITH_RICH: Final = {
    "subscriptions/batch_outputs.py": {"Console", "Live"},
    "verify.py": {"Console", "track"},
}
_HOSTILE: Final = "a\x1b]0;owned\x07\x1b[2J\x9b2J\rb\x7f"
_PROGRAM: Final = """
import sys
from types import SimpleNamespace
from tidegate.cli.failure import show_failure
from tidegate.cli.printing import echo, echo_progress
from tidegate.cli.subscriptions.batch_outputs import CsvOutput, JsonOutput
from tidegate.cli.printing import print_fields, print_table

hostile = sys.argv[1]
opened = SimpleNamespace(header=("id", hostile), opening=((1, hostile), (2, "x\\ny")))
JsonOutput(opened)
CsvOutput(opened)
print_fields([("field", hostile + "\\nlike  another")])
print_table([hostile, "[/b]"], [[hostile + "\\nlike a row", "[red]"]])
echo(hostile)
echo_progress(hostile, last=True)
show_failure(hostile)
"""


def _in_a_pipe() -> str:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, _HOSTILE], capture_output=True, check=True)
    return done.stdout.decode()


def _on_a_terminal() -> str:
    """Everything that the program prints, as it comes to a terminal of 300 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "300"}
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, _HOSTILE], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65_536):
            shown += piece
    except OSError:
        pass  # how the end of a terminal is told
    os.close(ours)
    assert process.wait() == 0, shown.decode()
    return shown.decode()


def test_a_terminal_gets_no_control_character_of_others() -> None:
    shown = _on_a_terminal()
    assert "owned" in shown
    for followed in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\x7f", "\rb"):
        assert followed not in shown, repr(shown)
    assert r"a\u001b]0;owned\u0007\u001b[2J\u009b2J\u000db\u007f" in shown
    assert "\x1b[31m" in shown, "failures are red, and this escape is ours"


def test_a_pipe_gets_csv_as_it_is_and_json_of_the_same_value() -> None:
    lines = _in_a_pipe().split("\n")
    rows = [{"id": 1, _HOSTILE: _HOSTILE}, {"id": 2, _HOSTILE: "x\ny"}]
    assert [json.loads(line) for line in lines[:2]] == rows
    assert lines[2:6] == [f'id,"{_HOSTILE}"', f'1,"{_HOSTILE}"', '2,"x', 'y"']


def test_a_field_and_a_cell_are_one_line() -> None:
    rest = _in_a_pipe().split("\n")[6:]
    assert rest[0].startswith("field")
    assert rest[0].endswith(r"\u000alike  another")
    assert rest[1].rstrip().endswith("[/b]"), "a name is no markup"
    assert r"\u000alike a row" in rest[2]


def test_no_other_module_of_the_command_line_prints() -> None:
    found = {}
    for file in sorted(_CLI.rglob("*.py")):
        used = {_used(node) for node in ast.walk(ast.parse(file.read_text()))}
        if printing := used & _PRINTS:
            found[file.relative_to(_CLI).as_posix()] = printing
    assert found.pop("printing.py") == {"click.echo", "click.secho", "Console"}
    assert found == _WITH_RICH


def _used(node: ast.AST) -> str:
    """Return what the code calls, or hands on to be called; empty for anything else."""
    match node:
        case ast.Attribute(ast.Name("click" as module), name):
            return f"{module}.{name}"
        case ast.Call(ast.Name(name)):
            return name
    return ""
