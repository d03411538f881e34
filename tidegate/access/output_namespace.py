"""The operator's bound on the topics that feeds may write to (docs/security.md#where-a-feed-may-write)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tidegate.errors import SettingsError

#: The star is the only special character of `fnmatchcase` that is allowed.
_PATTERN: Final = re.compile(r"[A-Za-z0-9._*-]+")


@dataclass(frozen=True, slots=True)
class OutputNamespace:
    """Patterns of topic names; ``*`` stands for any characters. Without patterns every name is allowed.

    >>> OutputNamespace.of("cdc.*, board_flights").has("cdc.orders")
    True
    """

    patterns: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> OutputNamespace:
        """Read patterns with commas between them. Raises ``SettingsError`` for a text that is no pattern."""
        patterns = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
        for pattern in patterns:
            if _PATTERN.fullmatch(pattern) is None:
                raise SettingsError(
                    f"output_topics has the pattern {pattern[:100]!r}, but patterns of topics are letters, "
                    "digits, '.', '_', '-' and '*', with commas between them"
                )
        return cls(patterns)

    def has(self, topic: str) -> bool:
        """Return whether feeds may write to a topic of this name."""
        return not self.patterns or any(fnmatchcase(topic, pattern) for pattern in self.patterns)

    def fault(self, topic: str, mend: str) -> str:
        """Return why no feed may write to a topic, and then ``mend``, which says what to do.

        Return an empty text if feeds may write to the topic.
        """
        if self.has(topic):
            return ""
        return (
            f"no feed may write to {topic}: the operator allows only topics like {', '.join(self.patterns)} "
            f"(output_topics); {mend}"
        )


#: The namespace that allows every topic.
EVERYWHERE: Final = OutputNamespace()
