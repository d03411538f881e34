"""The first error of a stage, which each later call raises again: since then the stage lacks rows.

A call may also be interrupted between any two of its steps: by Ctrl-C, which is no error of the stage. A note
that a call is under way is made before the first step of the call, and removed after its last step. So the
next call sees that an interrupt came, at whatever step, also between two lines of this file. It then raises
``CallInterrupted``.
"""

from __future__ import annotations

from tidegate.errors import CallInterrupted


class FirstError:
    """Guards the calls of a stage: after an error in a call each later call raises the same error.

    After a call that was interrupted each later call raises ``CallInterrupted``.

    Example: ``with self._first_error: ...`` around the body of each call. One thread at a time may call.
    """

    __slots__ = ("_error", "_under_way")

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._under_way = False

    def __enter__(self) -> None:
        self.require_none()
        self._under_way = True

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:  # nothing is called from here to the return: no interrupt comes in between
            self._under_way = False
        else:
            self.keep(error)

    def require_none(self) -> None:
        """Raise the error of an earlier call, if there is one."""
        if self._error is None and self._under_way:
            self._error = CallInterrupted(
                "An earlier call was interrupted before its end, by Ctrl-C or by a cancellation, and rows "
                "that it had read may be in no batch. Nothing more is given. Close this, and begin again "
                "from the last token that you stored"
            )
        if self._error is not None:
            raise self._error

    def keep(self, error: BaseException) -> None:
        """Make each later call raise ``error``, or ``CallInterrupted`` if ``error`` is no ``Exception``."""
        self._under_way = True
        if isinstance(error, Exception):
            self._error = error

    def forgive(self) -> None:
        """Forget an interrupt. The caller knows that the call had taken nothing when the interrupt came."""
        self._under_way = False
