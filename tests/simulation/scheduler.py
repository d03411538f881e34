"""Virtual time, and all that happens in it, one thing at a time, in an order that follows from the seed.

Everything is an action at a time. An action may belong to a simulated process: it is put off while that
process is paused, and never happens once it is dead. So a process can die between any two actions: at
every await of its loop, and wherever one of its threads waits for the broker.

Code that blocks runs in real threads that take turns: exactly one of them runs, or the scheduler itself.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

Action: TypeAlias = Callable[[], None]
Ended: TypeAlias = BaseException | None

_STUCK_ACTIONS: Final = 20_000_000
_LOOK_S: Final = 0.01


class ProcessEnded(BaseException):
    """The exception that unwinds the code of a process that has ended. Nothing that this code does meanwhile
    has an effect."""


class Timer:
    """An action that waits for its time; it can be called off."""

    __slots__ = ("action", "owner")

    def __init__(self, action: Action, owner: Process | None) -> None:
        self.action: Action | None = action
        self.owner = owner

    def cancel(self) -> None:
        """Cancel the action."""
        self.action = None


class Scheduler:
    """The time, in seconds since the run began, and what is to happen."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.actions = 0
        self.process: Process | None = None  # the process whose code runs at the moment
        self.rng = Random(f"{seed}:order")
        self._heap: list[tuple[float, int, Timer]] = []
        self._number = 0
        self._carriers: list[_Carrier] = []
        self._back = _closed()
        self._running: _Carrier | None = None

    def at(self, when: float, action: Action, owner: Process | None = None) -> Timer:
        """Let ``action`` happen at ``when``; of actions at the same time, the one that was asked for first
        happens first."""
        timer = Timer(action, owner)
        self._number += 1
        heapq.heappush(self._heap, (max(when, self.now), self._number, timer))
        return timer

    def after(self, delay: float, action: Action, owner: Process | None = None) -> Timer:
        """Let ``action`` happen ``delay`` seconds from now."""
        return self.at(self.now + delay, action, owner)

    def run(self, until: float, done: Callable[[], bool] = lambda: False) -> bool:
        """Let everything happen up to ``until``, or until ``done``; returns whether it was done."""
        while not done():
            if not self._heap or self._heap[0][0] > until:
                self.now = max(self.now, until)
                return False
            self.now, _, timer = heapq.heappop(self._heap)
            self._happen(timer)
        return True

    def _happen(self, timer: Timer) -> None:
        action, owner = timer.action, timer.owner
        if action is None or (owner is not None and not owner.alive):
            return
        if owner is not None and owner.paused:
            owner.put_off.append(timer)
            return
        if owner is not None and owner.burnt():
            return
        self.actions += 1
        if self.actions > _STUCK_ACTIONS:
            raise RuntimeError(f"{self.actions} actions, and the run has not come to its end")
        self.process = owner
        try:
            action()
        except ProcessEnded:
            pass
        finally:
            self.process = None

    # ---- threads that take turns

    def begin(self, work: Action, owner: Process) -> None:
        """Run ``work``, which may block, until it blocks for the first time."""
        carrier = self._carriers.pop() if self._carriers else _Carrier(self)
        owner.carriers.add(carrier)
        carrier.load(work, owner)
        self._switch_to(carrier)

    def block(self, delay: float) -> None:
        """Let time pass. This is called by work that blocks."""
        carrier = self._running
        if carrier is None:
            raise RuntimeError("a call that blocks was made in the event loop")
        self.after(delay, lambda: self._switch_to(carrier), carrier.owner)
        self._wait(carrier)

    def park(self) -> Action:
        """Return the action that lets the work go on, once. This is called by work that blocks, and
        ``wait_parked`` has to follow."""
        carrier = self._running
        if carrier is None:
            raise RuntimeError("a call that blocks was made in the event loop")
        turn = carrier.turn

        def resume() -> None:
            if carrier.turn == turn and carrier.owner is not None:
                carrier.turn += 1
                self.after(0.0, lambda: self._switch_to(carrier), carrier.owner)

        return resume

    def wait_parked(self) -> None:
        """Wait until the action that ``park`` returned is called."""
        assert self._running is not None
        self._wait(self._running)

    def unwind(self, owner: Process) -> None:
        """Unwind and release the threads of a dead process."""
        for carrier in list(owner.carriers):
            if carrier is not self._running:
                self._switch_to(carrier)

    def _switch_to(self, carrier: _Carrier) -> None:
        process, self.process = self.process, carrier.owner
        self._running = carrier
        carrier.go.release()
        self._back.acquire()
        self._running = None
        self.process = process

    def _wait(self, carrier: _Carrier) -> None:
        self._back.release()
        carrier.go.acquire()
        if carrier.owner is not None and not carrier.owner.alive:
            raise ProcessEnded

    def carrier_done(self, carrier: _Carrier) -> None:
        """Take back a carrier whose work has ended. The carrier calls this."""
        assert carrier.owner is not None
        carrier.owner.carriers.discard(carrier)
        carrier.owner = None
        self._carriers.append(carrier)
        self._back.release()

    def close(self) -> None:
        """End the threads that have no work; each would keep all that happened in memory."""
        while self._carriers:
            self._carriers.pop().end()


def _closed() -> threading.Lock:
    """Return a gate that lets one thread through each time that it is released. A turn by it takes a fraction
    of the time that a semaphore of ``threading`` takes."""
    gate = threading.Lock()
    gate.acquire()
    return gate


class _Carrier:
    """A real thread that does one piece of work after another, and only when it is told to go on."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.go = _closed()
        self.owner: Process | None = None
        self.turn = 0
        self._scheduler = scheduler
        self._work: Action | None = None
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Let the thread end. Its work is done."""
        self.go.release()
        self._thread.join()

    def load(self, work: Action, owner: Process) -> None:
        self._work, self.owner = work, owner

    def _carry(self) -> None:
        while True:
            self.go.acquire()
            if self._work is None:
                return
            assert self.owner is not None
            try:
                self._work()
            except ProcessEnded:
                pass
            except BaseException as error:  # otherwise nobody would see the error
                self.owner.failed(error)
            self._work = None
            self._scheduler.carrier_done(self)


class Process:
    """One run of a worker: an event loop and threads that live and die together.

    ``slowness`` is the longest that the machine lets an action of the loop wait, in seconds.
    """

    def __init__(self, scheduler: Scheduler, name: str, slowness: float) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.put_off: list[Timer] = []
        self.carriers: set[_Carrier] = set()
        self.end: tuple[Ended, int] | None = None
        self.unexpected: list[BaseException] = []
        self.on_end: list[Action] = []
        self.fuse: int | None = None  # the process dies after so many actions
        self.unlit: tuple[str, int] | None = None  # a fuse is lit only when something happens
        self.scheduler = scheduler
        self.loop = SimLoop(scheduler, self, slowness)  # type: ignore[abstract]

    def kill(self) -> None:
        """Kill the process as ``kill -9`` does. Not to be called by the process itself."""
        if self.alive:
            self._die()

    def light(self, happened: str) -> None:
        """Rows or a commit of the process have arrived at the broker."""
        if self.unlit is not None and self.unlit[0] == happened:
            self.fuse, self.unlit = self.unlit[1], None

    def burnt(self) -> bool:
        """Whether the process dies now, in place of its next action."""
        if self.fuse is None:
            return False
        self.fuse -= 1
        if self.fuse <= 0:
            self.kill()
        return not self.alive

    def leave(self, error: Ended, status: int) -> None:
        """End the process, at this point of its own code."""
        if self.alive:
            self.end = (error, status)
            self._die()
        raise ProcessEnded

    def failed(self, error: BaseException) -> None:
        """Note an error that the process itself did not notice."""
        self.unexpected.append(error)

    def pause(self) -> None:
        """Pause the process as SIGSTOP does: its threads stop, those of the Kafka clients included."""
        self.paused = True

    def resume(self) -> None:
        """Resume the process as SIGCONT does: everything that was due happens now, in its order."""
        self.paused = False
        put_off, self.put_off = self.put_off, []
        for timer in put_off:
            if timer.action is not None:
                self.scheduler.at(self.scheduler.now, timer.action, self)

    def require_alive(self) -> None:
        """Raise ``ProcessEnded`` in code that runs after the process has ended."""
        if not self.alive:
            raise ProcessEnded

    def _die(self) -> None:
        self.alive = False
        self.scheduler.after(0.0, lambda: self.scheduler.unwind(self))
        for action in self.on_end:
            self.scheduler.after(0.0, action)


class SimLoop(asyncio.AbstractEventLoop):
    """The event loop of one process. Callbacks run in the order in which they were added, as asyncio says;
    The scheduler decides when they run, and what happens elsewhere in between."""

    def __init__(self, scheduler: Scheduler, process: Process, slowness: float) -> None:
        self._scheduler = scheduler
        self._process = process
        self._slowness = slowness
        self._ready: deque[asyncio.Handle] = deque()
        self._woken = False
        self._offset = scheduler.rng.uniform(0, 1e6)  # a monotonic clock begins anywhere

    def run_soon(self, main: Any) -> None:
        """Begin a coroutine as the process's main task."""
        self._process.scheduler.after(0.0, lambda: self._begin(main), self._process)

    def _begin(self, main: Any) -> None:
        self.create_task(main)

    def _turn(self) -> None:
        self._woken = False
        if not self._ready:
            return
        handle = self._ready.popleft()
        if not handle.cancelled():
            asyncio._set_running_loop(self)
            try:
                handle._run()
            finally:
                asyncio._set_running_loop(None)
        self._wake()

    def _wake(self) -> None:
        if self._ready and not self._woken and self._process.alive:
            self._woken = True
            rng = self._scheduler.rng
            delay = rng.random() * 2e-5 if rng.random() > 0.002 else rng.random() * self._slowness
            self._scheduler.after(delay, self._turn, self._process)

    # ---- what asyncio and the worker use of a loop

    def time(self) -> float:
        return self._scheduler.now + self._offset

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self._wake()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def due() -> None:
            if not handle.cancelled():
                self._ready.append(handle)
                self._wake()

        self._scheduler.at(when - self._offset, due, self._process)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: the handle stays in the heap, and does nothing."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        pool: SimExecutor = executor if executor is not None else SimExecutor(self._process, 1)
        pool.run(lambda: func(*args), future)
        return future

    def call_exception_handler(self, context: Any) -> None:
        error = context.get("exception")
        if self._process.alive and error is not None:
            self._process.failed(error)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


class SimExecutor:
    """A pool of so many threads for work that blocks; without ``blocking``, for work that only computes."""

    def __init__(self, process: Process, threads: int, *, blocking: bool = True) -> None:
        self._process = process
        self._free = threads
        self._threads = threads
        self._blocking = blocking
        self._closed = False
        self._waiting: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    def run(self, work: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        """Do ``work`` when a thread is free, and tell ``future`` of it. Raises once the pool is shut down."""
        if self._closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        self._waiting.append((work, future))
        self._next()

    def submit(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def shutdown(self, *_: Any, **__: Any) -> None:
        """Take no more work, and wait until all of it is done. Blocks."""
        self._closed = True
        while self._waiting or self._free < self._threads:
            self._process.scheduler.block(_LOOK_S)

    def _next(self) -> None:
        if not self._free or not self._waiting:
            return
        self._free -= 1
        work, future = self._waiting.popleft()
        scheduler = self._process.scheduler
        delay = scheduler.rng.random() * 2e-4

        def compute() -> None:
            self._carry_out(work, future)

        def begin() -> None:
            scheduler.begin(compute, self._process)

        scheduler.after(delay, begin if self._blocking else compute, self._process)

    def _carry_out(self, work: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        try:
            result, error = work(), None
        except Exception as raised:
            result, error = None, raised
        self._free += 1
        scheduler = self._process.scheduler

        def tell() -> None:
            self._process.loop.call_soon(_settle, future, result, error)

        scheduler.after(scheduler.rng.random() * 2e-4, tell, self._process)
        self._next()


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
