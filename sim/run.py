"""``tidegate sim run``: runs a simulated range store that writes to Kafka in real time."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, TypeAlias

from sim.log.history import HistoryFile, HistoryLog, NoHistory
from sim.log.kafka_sink import KafkaSink
from sim.nycflights import fetch_archive
from sim.options import StoreOptions
from sim.plan import Workload
from sim.realtime import OnProgress, RealTimeRun, SimProgress
from sim.request_source import KafkaRequests
from sim.simulation import Simulation
from sim.topics import log_topic, prepare_topics, requests_topic
from sim.workloads.bank import Bank, BankOptions
from sim.workloads.flights import Flights, FlightsOptions

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
WorkloadOptions: TypeAlias = FlightsOptions | BankOptions


@dataclass(frozen=True, slots=True)
class SimOptions:
    """The options of a run.

    With ``seconds=None`` the store runs until SIGTERM or Ctrl-C. ``history`` names the file for its history.
    With ``answer_on`` the first such signal only stops the writing, and the second one ends the run.
    """

    bootstrap: str
    topic_prefix: str = ""
    workload: WorkloadOptions = field(default_factory=FlightsOptions)
    store: StoreOptions = field(default_factory=StoreOptions)
    seed: int = 0
    seconds: float | None = None
    history: Path | None = None
    answer_on: bool = False


def run(options: SimOptions, on_progress: OnProgress, stop: threading.Event | None = None) -> SimProgress:
    """Run a store until ``options`` or ``stop`` end it, and then until everything is in the log and closed.

    In the main thread, SIGTERM and SIGINT stop it too. Raises ``BrokerUnavailable``, ``TopologyError``
    (topics that do not fit), ``DeliveryError``, and what ``fetch_archive`` raises.
    """
    partitions = options.store.partitions
    workload = _workload(options)
    prepare_topics(options.bootstrap, options.topic_prefix, partitions)
    with ExitStack() as stack:
        requests_name = requests_topic(options.topic_prefix)
        requests = stack.enter_context(closing(KafkaRequests(options.bootstrap, requests_name, partitions)))
        history = _history(options, stack)
        sink = stack.enter_context(closing(KafkaSink(options.bootstrap, log_topic(options.topic_prefix))))
        simulation = Simulation(
            workload, sink, history, options.store, seed=options.seed, base_ns=time.time_ns()
        )
        stop, end = stop or threading.Event(), threading.Event() if options.answer_on else None
        stack.enter_context(_signals([stop] if end is None else [stop, end]))
        return RealTimeRun(simulation, sink, requests).run(stop, options.seconds, on_progress, end)


def _workload(options: SimOptions) -> Workload:
    if isinstance(options.workload, BankOptions):
        return Bank(options.workload, options.seed)
    return Flights(fetch_archive(), options.workload, options.seed)


def _history(options: SimOptions, stack: ExitStack) -> HistoryLog:
    if options.history is None:
        return NoHistory()
    return stack.enter_context(HistoryFile(options.history))


@contextmanager
def _signals(stops: Sequence[threading.Event]) -> Iterator[None]:
    """Let each SIGTERM or SIGINT set the next of ``stops`` while the context lasts.

    Only the main thread can have signal handlers; in other threads this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting = list(stops)
    kept = {number: signal.getsignal(number) for number in _STOPPING}

    def put_back() -> None:
        for number, handler in kept.items():
            signal.signal(number, handler)

    def on_signal(_: int, __: FrameType | None) -> None:
        if waiting:
            waiting.pop(0).set()
        if not waiting:
            put_back()  # the next signal ends the process at once

    for number in _STOPPING:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        put_back()
