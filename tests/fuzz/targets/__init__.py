"""Every target, by its name."""

from __future__ import annotations

from typing import Final

from tests.fuzz.target import Target
from tests.fuzz.targets import (
    files,
    log_bytes,
    messages,
    output_records,
    rows,
    serve,
    statements,
    stored_rows,
    subscriptions,
    tokens,
    whole_step,
    worker_answers,
)

_MODULES: Final = (
    log_bytes,
    rows,
    statements,
    messages,
    stored_rows,
    output_records,
    files,
    serve,
    subscriptions,
    tokens,
    whole_step,
    worker_answers,
)
TARGETS: Final[dict[str, Target]] = {target.name: target for module in _MODULES for target in module.TARGETS}
