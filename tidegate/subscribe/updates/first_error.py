"""The first error of a stage, which each later call raises again: the stage lacks rows since then."""

from __future__ import annotations


class FirstError:
    """Guards the calls of a stage: after an error in one of them each later one raises the same error.

    Example: ``with self._first_error: ...`` around the body of each call.
    """

    __slots__ = ("_error",)

    def __init__(self) -> None:
        self._error: Exception | None = None

    def __enter__(self) -> None:
        if self._error is not None:
            raise self._error

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception):
            self._error = error
