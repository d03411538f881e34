"""The number of examples of a property test whose examples take long.

Where the profile of `tests/conftest.py` has others take a hundred times as many, it does so too.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

#: What a property test takes by default. `make test` takes two fifths of it.
USUAL: Final = 50


def examples(count: int) -> settings:
    """Settings for ``count`` examples where others take `USUAL`, and in longer runs for as many more.

    ``@examples(10)`` above a test means 10 by default, 4 in `make test` and 200 in `make soak`.
    """
    return settings(max_examples=max(1, count * settings().max_examples // USUAL))


def seeds(count: int) -> range:
    """The seeds of a test that tries several, as many as a property test with ``@examples(count)`` tries."""
    return range(max(1, count * settings().max_examples // USUAL))
