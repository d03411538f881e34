"""Every target, by its name."""

from __future__ import annotations

from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets import log_bytes, messages, rows, statements, whole_step

TARGETS: Final[dict[str, Target]] = {
    target.name: target
    for module in (log_bytes, rows, statements, messages, whole_step)
    for target in module.TARGETS
}
