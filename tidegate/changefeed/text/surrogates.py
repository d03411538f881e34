"""Halves of surrogate pairs, which Python's texts may have, and which no bytes of UTF-8 stand for."""

from __future__ import annotations

import re
from typing import Final

LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
