"""Starts a planned server, and waits until it really answers."""

from __future__ import annotations

import time
from collections.abc import Callable

from stack.errors import PortTaken, ServerFailed, last_lines_of
from stack.ports import accepts_connections, shown_address
from stack.processes.child import Child
from stack.processes.server import Recipe, ServerPlan

START_BOUND_S = 120.0  # on an idle machine a server takes 5 s at most; on a loaded test machine much longer
_POLL_S = 0.05


def launch(
    recipe: Recipe, plan: ServerPlan, *, leashed: bool, on_spawn: Callable[[Child], None] | None = None
) -> Child:
    """Run ``plan``, and return the process when it answers. After a failed launch no process is left.

    ``on_spawn`` is called with the process before it answers.

    Raises:
        PortTaken: another program listens at its address, and would answer in its place.
        ServerFailed: it ended, or did not answer within 120 s; its last log lines are in the message.
    """
    if accepts_connections(plan.address):
        raise PortTaken(
            f"{plan.name} cannot start: another program listens at {shown_address(plan.address)}; stop that "
            "one first."
        )
    child = Child(plan.command, plan.log, leashed=leashed, conduct=plan.conduct)
    try:
        if on_spawn is not None:
            on_spawn(child)
        _await_answer(recipe, plan, child)
    except BaseException:
        child.stop()
        raise
    return child


def _await_answer(recipe: Recipe, plan: ServerPlan, child: Child) -> None:
    deadline = time.monotonic() + START_BOUND_S
    while time.monotonic() < deadline:
        if recipe.answers(plan.address):
            return
        if child.exit_status is not None:
            raise ServerFailed(
                f"{plan.name} ended with status {child.exit_status} while it was starting. "
                f"The end of its log {plan.log}:\n{last_lines_of(plan.log)}"
            )
        time.sleep(_POLL_S)
    raise ServerFailed(
        f"{plan.name} did not answer at {shown_address(plan.address)} within {START_BOUND_S:.0f} s and was "
        "stopped. "
        f"The end of its log {plan.log}:\n{last_lines_of(plan.log)}"
    )
