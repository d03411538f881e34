"""Every target, by its name."""

from __future__ import annotations

from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets import log_bytes, statements

TARGETS: Final[dict[str, Target]] = {
    target.name: target for module in (log_bytes, statements) for target in module.TARGETS
}
