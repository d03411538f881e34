"""The number of examples of a property test whose examples take long.

Where the profile of `tests/conftest.py` lets other tests run more or fewer examples, this number grows or
shrinks by the same factor.
"""

from __future__ import annotations

from typing import Final

from hypothesis import settings

#: The number of examples of a property test by default. `make test` runs two fifths of it.
USUAL: Final = 50


def examples(count: int) -> settings:
    """Settings for ``count`` examples where other tests run `USUAL`. Longer runs have more, by the same
    factor.

    ``@examples(10)`` above a test means 10 by default, 4 in `make test` and 200 in `make soak`.
    """
    return settings(max_examples=max(1, count * settings().max_examples // USUAL))


def seeds(count: int) -> range:
    """The seeds of a test that tries several, as many as a property test with ``@examples(count)`` tries."""
    return range(max(1, count * settings().max_examples // USUAL))
