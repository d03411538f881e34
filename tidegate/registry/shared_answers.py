"""Answers of a slow remote side, shared by all threads of a process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class SharedAnswers(Generic[Key, Answer]):
    """Asks once for a key, however many threads want its answer at the same time. Keeps ``keep`` answers.

    The answer that was unused for longest is removed first. Errors are not kept: the next thread that wants
    the answer asks again. ``ask`` runs on a thread of its own, because no time limit of a socket bounds an
    answer that comes byte by byte. A caller waits for at most ``patience_s`` seconds. The question stays open
    after that, and stays the only one for its key.
    """

    def __init__(self, ask: Callable[[Key], Answer], *, keep: int, patience_s: float) -> None:
        self._ask = ask
        self._keep = keep
        self._patience_s = patience_s
        self._lock = Lock()
        self._kept: OrderedDict[Key, Answer] = OrderedDict()
        self._open: dict[Key, Future[Answer]] = {}

    def known(self, key: Key) -> Answer | None:
        """Return the answer if it is kept; otherwise ``None``, without asking for it."""
        with self._lock:
            return self._known(key)

    def get(self, key: Key) -> Answer:
        """Return the answer. Raises what ``ask`` raises; ``TimeoutError`` after ``patience_s`` seconds."""
        with self._lock:
            answer = self._known(key)
            if answer is not None:
                return answer
            question = self._open.get(key)
            if question is None:
                question = Future()
                # A daemon thread, since an answer that never ends must not keep the process from ending.
                Thread(target=self._put, args=(key, question), name="registry-call", daemon=True).start()
                self._open[key] = question
        return question.result(self._patience_s)

    def _known(self, key: Key) -> Answer | None:
        answer = self._kept.get(key)
        if answer is not None:
            self._kept.move_to_end(key)
        return answer

    def _put(self, key: Key, question: Future[Answer]) -> None:
        try:
            answer = self._ask(key)
        except BaseException as error:  # every error must reach the threads that wait
            with self._lock:
                del self._open[key]
            question.set_exception(error)
            return
        with self._lock:
            del self._open[key]
            self._kept[key] = answer
            if len(self._kept) > self._keep:
                self._kept.popitem(last=False)
        question.set_result(answer)
