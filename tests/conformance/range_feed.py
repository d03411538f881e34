"""Cases of kind ``processor``: the feeds of one range.

The source has threads, channels and timeouts; ``RangeFeed`` has none. So the steps of asynchronous cases
map to it like this:

* **A reader** (``FeedReader``) takes events one by one after every step until nothing waits. ``block`` keeps
  it from being done with the next event, ``unblock`` lets it go on. The output of a feed that has a
  ``run_output`` step in the case stands still until that step.
* **The send timeout**: with ``send_timeout_ms`` above zero nothing is waited for, as nobody could make room
  meanwhile: what the source does at the end of the timeout is done at once (``WhenFull.END_FEEDS``).
  With zero, an event that has no room is refused (``WhenFull.REFUSE``); the **sender** of
  ``closed_many_async`` keeps it and offers it again after every step, and is ``blocked`` while it has
  some left. ``ms`` of ``expect_blocked`` is then no matter: without a step nothing changes.
* **budget_bytes** is the limit of a ``MemoryBudget``; ``unlimited`` is one without a limit, which counts.
* ``eventually`` is now: when a step is done, all that follows from it is done.
* ``stop_async`` is ``stop``.
* ``publish_raw`` cases are about one feed alone: theirs is put among the range's feeds without the first
  checkpoint, which such cases ignore.
* ``push`` asks for the transactions below ``now``, or all when the case does not give it; where it names
  transactions that no op of the case has opened, the push stands alone. ``tick`` begins a push that stays
  in flight until a ``push`` step answers it.
* **Errors** are compared by reason (``REASON_...``), by text for those that the case brings along; ``any`` is
  every end but a clean one, and no error a clean end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tests.conformance.case import Case
from tests.conformance.feed_events import (
    at,
    blocks_of,
    event_of,
    event_text,
    expected_event,
    name_of,
    op_of,
    op_text,
    request_of,
    span_of,
    txn_of,
)
from tests.conformance.feed_reader import FeedReader
from tidegate.errors import ForbiddenOp, RangeError, StartBelowGC
from tidegate.hlc import MAX, ClosedTimestamp, Timestamp
from tidegate.raftlog.entry import WriteIntent
from tidegate.rangefeed.catchup import catch_up
from tidegate.rangefeed.event import CheckpointEvent
from tidegate.rangefeed.feed_end import FINISHED, EndReason, FeedEnd
from tidegate.rangefeed.init_scan import Lock, LockStrength, intents_in
from tidegate.rangefeed.memory_budget import MemoryBudget
from tidegate.rangefeed.range_feed import RangeFeed, RangeFeedConfig, WhenFull
from tidegate.rangefeed.registration import Registration
from tidegate.rangefeed.routing import Routed, shaped
from tidegate.ranges.push_attempt import PushAnswer, PushTarget, TxnStatus, ops_of, resolutions_of
from tidegate.ranges.resolver import Resolver

Step = dict[str, Any]

#: Events of a range that are not called like the reason for which its feeds end.
_LIFECYCLE: Final = {
    "command_without_logical_ops": EndReason.LOGICAL_OPS_MISSING,
}

#: CockroachDB's names of the counters.
_METRICS: Final = {
    "budget_allocation_failed": "budget_exhausted",
    "RangeFeedBudgetExhausted": "budget_exhausted",
}


def check_processor(case: Case) -> str | None:
    """Return what went wrong in the case, or ``None``."""
    run = _Run(case)
    for number, step in enumerate(case["steps"]):
        failure = run.step(step)
        if failure is not None:
            return f"step {number} ({step['op']}): {failure}"
    return None


class _Run:
    """One case under way."""

    def __init__(self, case: Case) -> None:
        setup, steps = case["setup"], case["steps"]
        self._feed = _range_feed(setup)
        self._budget = self._feed.budget
        self._readers: dict[str, FeedReader] = {}
        self._waiting_to_send: deque[ClosedTimestamp] = deque()
        self._capacity = _feed_capacity(setup)
        self._alone = any(step["op"] == "publish_raw" for step in steps)
        self._held_outputs = {step["reg"] for step in steps if step["op"] == "run_output"}
        self._pushed: dict[str, Timestamp] = {}

    def step(self, step: Step) -> str | None:
        """Run one step and all that follows from it."""
        action = _ACTIONS.get(step["op"])
        if action is None:
            return "unknown step"
        failure = action(self, step)
        self._settle()
        return failure

    def _settle(self) -> None:
        """Let readers read, events be processed and the sender send, until none of them can go on."""
        while sum(reader.read() for reader in self._readers.values()) or self._send_waiting():
            self._feed.run()

    def _send_waiting(self) -> bool:
        sent = False
        while self._waiting_to_send and self._feed.offer_closed(self._waiting_to_send[0]):
            self._waiting_to_send.popleft()
            sent = True
        return sent

    # ---- the log ----

    def ops(self, step: Step) -> str | None:
        return self._give_input(step, lambda: self._feed.offer_ops([op_of(op) for op in step["ops"] or ()]))

    def closed(self, step: Step) -> str | None:
        return self._give_input(step, lambda: self._feed.offer_closed(ClosedTimestamp(at(step["ts"]))))

    def _give_input(self, step: Step, give: Callable[[], bool]) -> str | None:
        try:
            taken = give()
        except RangeError as error:
            kind = "op_below_resolved" if isinstance(error, ForbiddenOp) else step.get("error")
            return _difference("error", step.get("error"), kind) if "error" in step else str(error)
        if "error" in step:
            return f"expected error {step['error']}, got none"
        return _difference("ok", step["ok"], taken) if "ok" in step else None

    def ops_many(self, step: Step) -> str | None:
        for number in range(step["count"]):
            if not self._feed.offer_ops([op_of(_numbered(step["op_template"], number))]):
                return f"op {number} was not taken"
            self._settle()
        return None

    def ops_until_refused(self, step: Step) -> str | None:
        for number in range(step["count"]):
            if not self._feed.offer_ops([op_of(_numbered(step["op_template"], number))]):
                break
            self._settle()
        return None

    def closed_many_async(self, step: Step) -> str | None:
        self._waiting_to_send += (
            ClosedTimestamp(Timestamp(wall)) for wall in range(step["from"], step["to"] + 1)
        )
        return None

    def expect_blocked(self, _step: Step) -> str | None:
        return None if self._waiting_to_send else "the sender has sent everything"

    def expect_unblocked(self, _step: Step) -> str | None:
        left = len(self._waiting_to_send)
        return f"the sender still waits with {left} events" if left else None

    def init_scan(self, step: Step) -> str | None:
        intents = (WriteIntent(txn_of(i["txn"]), b"", at(i["ts"]), at(i["ts"])) for i in step["intents"])
        return None if self._feed.initialise(intents) else "the range's feeds are over"

    def init_scan_emits(self, step: Step) -> str | None:
        in_key_order = sorted(map(_lock, filter(_is_lock, step["data"])), key=lambda lock: lock.key)
        found = intents_in(self._feed.span, in_key_order)
        seen = [*map(op_text, found), {"type": "init"}]
        return _difference("ops", step["expect"], seen)

    def publish(self, step: Step) -> str | None:
        fields = step["event"]
        omit = bool(step.get("omit", fields.get("omit", False)))
        origin_id = int(step.get("origin_id", fields.get("origin_id", 0)))
        self._feed.feeds.publish(Routed(span_of(step["span"]), event_of(fields), omit, origin_id))
        return None

    def publish_raw(self, step: Step) -> str | None:
        feed, event = self._readers[step["reg"]].feed, event_of(step["event"])
        feed.put((shaped(event, feed.request) or event, None))
        return None

    # ---- feeds ----

    def register(self, step: Step) -> str | None:
        name = step["reg"]
        expected = step.get("ok", "error" not in step)
        try:
            feed = self._register(step)
        except (StartBelowGC, ValueError) as error:
            return f"refused: {error}" if expected else _refusal_difference(step.get("error"), error)
        if feed is not None:
            self._readers[name] = FeedReader(feed, running=name not in self._held_outputs)
        return _difference("ok", expected, feed is not None)

    def _register(self, step: Step) -> Registration | None:
        request = request_of(step)
        data = step.get("catchup_data")
        past = None if data is None else catch_up(request, blocks_of(data))
        if not self._alone:
            return self._feed.register(request, past)
        feeds = self._feed.feeds
        feed = Registration(request, past, capacity=self._capacity, on_end=feeds.discard)
        feeds.add(feed)
        return feed

    def run_output(self, step: Step) -> str | None:
        self._readers[step["reg"]].running = True
        return None

    def block(self, step: Step) -> str | None:
        self._readers[step["reg"]].block()
        return None

    def block_after(self, step: Step) -> str | None:
        self._readers[step["reg"]].block_after_values = step["values"]
        return None

    def unblock(self, step: Step) -> str | None:
        self._readers[step["reg"]].unblock()
        return None

    def wait_blocked(self, step: Step) -> str | None:
        return None if self._readers[step["reg"]].blocked else "the reader is not blocked"

    def fail_next_send(self, step: Step) -> str | None:
        self._readers[step["reg"]].fail_next_send = step.get("error", "the stream failed")
        return None

    def fail_stream(self, step: Step) -> str | None:
        self._readers[step["reg"]].feed.end(FeedEnd(EndReason.FAILED, step.get("error", "the stream failed")))
        return None

    def disconnect(self, step: Step) -> str | None:
        self._readers[step["reg"]].feed.end(_end_of(step))
        return None

    def disconnect_span(self, step: Step) -> str | None:
        self._feed.disconnect(span_of(step["span"]), _end_of(step))
        return None

    def cancel(self, step: Step) -> str | None:
        feed = self._readers[step["reg"]].feed
        feed.end(FeedEnd(EndReason.CANCELLED, "the stream was cancelled"))
        return _end_difference(step.get("error", "any"), feed.ended)

    def stop(self, step: Step) -> str | None:
        self._feed.stop(_end_of(step))
        return None

    stop_async = stop

    def lifecycle(self, step: Step) -> str | None:
        event = step["event"]
        self._feed.stop(FeedEnd(_LIFECYCLE.get(event) or EndReason[event.upper()]))
        return None

    def set_gc_threshold(self, step: Step) -> str | None:
        self._feed.gc_threshold = at(step["ts"])
        return None

    def clear(self, step: Step) -> str | None:
        for name in step.get("regs", self._readers):
            self._readers[name].forget()
        return None

    # ---- pushes ----

    def tick(self, step: Step) -> str | None:
        self._begin_push(step)
        expected = step.get("push_expected")
        return None if expected is None else _difference("push", expected, bool(self._pushed))

    def push(self, step: Step) -> str | None:
        if not self._pushed:
            self._begin_push(step)
        expected = {name: at(ts) for name, ts in step.get("expect_pushed", [])}
        answer = _answer(step)
        alone = answer is not None and not self._pushed and self._tracked() == 0
        if "expect_pushed" in step and not alone and expected != self._pushed:
            return f"expected {expected} to be pushed, got {self._pushed}"
        self._pushed = {}
        if alone and answer is not None:
            return _push_difference(step, answer, list(resolutions_of(answer.txns, self._feed.span)))
        try:
            resolved = self._feed.finish_push(answer, barrier_passed=bool(step.get("barrier", False)))
        except ValueError as error:
            return None if "error" in step else str(error)
        failure = None if answer is None else _push_difference(step, answer, list(resolved))
        return failure or self.expect_state(step)

    def _begin_push(self, step: Step) -> None:
        older_than = at(step["now"]) if step.get("now") else MAX
        self._pushed = {name_of(txn.txn_id): txn.timestamp for txn in self._feed.begin_push(older_than)}

    # ---- what is expected ----

    def expect(self, step: Step) -> str | None:
        seen = self._seen(step)
        return _difference("events", list(map(expected_event, step["events"])), seen)

    def expect_first(self, step: Step) -> str | None:
        seen = self._seen(step)
        expected = list(map(expected_event, step.get("events") or [step["event"]]))
        return _difference("first events", expected, seen[: len(expected)])

    def expect_last(self, step: Step) -> str | None:
        seen = self._seen(step)
        expected = list(map(expected_event, step.get("events") or [step["event"]]))
        return _difference("last events", expected, seen[-len(expected) :])

    def expect_count(self, step: Step) -> str | None:
        """``values`` is how many of the events are values; ``true`` counts those alone."""
        seen = self._seen(step)
        values = sum(event["type"] == "value" for event in seen)
        wanted = step.get("values")
        count = values if wanted is True else len(seen)
        if "count" in step and count != step["count"]:
            return f"expected {step['count']} events, got {count}"
        if "max" in step and count > step["max"]:
            return f"expected at most {step['max']} events, got {count}"
        if wanted is not None and not isinstance(wanted, bool) and values != wanted:
            return f"expected {wanted} values, got {values}"
        return None

    def _seen(self, step: Step) -> list[dict[str, Any]]:
        """Return what the feed received since the last look. This look counts as the last one from now on."""
        reader = self._readers[step["reg"]]
        ignored = CheckpointEvent if step.get("ignore_checkpoints") else ()
        events = [event_text(event) for event in reader.received if not isinstance(event, ignored)]
        reader.forget()
        return events

    def expect_error(self, step: Step) -> str | None:
        return _end_difference(step.get("error"), self._readers[step["reg"]].feed.ended)

    def expect_state(self, step: Step) -> str | None:
        resolver = self._feed.resolver
        state = {
            "registrations": len(self._feed.feeds),
            "tracked_txns": self._tracked(),
            "resolved": list(resolver.resolved),
            "initialized": resolver.initialised,
        }
        for name, value in state.items():
            if name in step and step[name] != value:
                return f"expected {name} {step[name]}, got {value}"
        return None

    def _tracked(self) -> int:
        return len(self._feed.resolver.queue)

    def expect_filter(self, step: Step) -> str | None:
        for keys, needed in step.get("need_val", []):
            if self._feed.needs_value(span_of(keys)) is not needed:
                return f"expected NeedVal({keys}) to be {needed}"
        for keys, needed in step.get("need_prev", []):
            if self._feed.needs_previous(span_of(keys)) is not needed:
                return f"expected NeedPrevVal({keys}) to be {needed}"
        return None

    def expect_budget(self, step: Step) -> str | None:
        assert self._budget is not None
        return _difference("used bytes", step["used"], self._budget.used_bytes)

    def expect_metric(self, step: Step) -> str | None:
        name = str(step["name"]).removeprefix("kv.rangefeed.")
        count = getattr(self._feed.counters, _METRICS.get(name, name), None)
        return f"no metric {name}" if count is None else _difference(name, step["value"], count)


_ACTIONS: Final[dict[str, Callable[[_Run, Step], str | None]]] = {
    name: method for name, method in vars(_Run).items() if not name.startswith("_") and name != "step"
}


def _range_feed(setup: dict[str, Any]) -> RangeFeed:
    resolver = Resolver()
    if setup.get("init", True):
        resolver.initialise()
    when_full = WhenFull.REFUSE if setup.get("send_timeout_ms", 1) == 0 else WhenFull.END_FEEDS
    config = RangeFeedConfig(
        pending_events_max=setup.get("event_capacity", 16),
        buffered_events_max=_feed_capacity(setup),
        when_full=when_full,
        push_txns=setup.get("push_enabled", True),
    )
    limit = setup.get("budget_bytes")
    budget = None if limit is None else MemoryBudget(None if limit == "unlimited" else limit)
    return RangeFeed(
        span_of(setup["span"]),
        resolver=resolver,
        config=config,
        budget=budget,
        gc_threshold=at(setup.get("gc_threshold")),
    )


def _feed_capacity(setup: dict[str, Any]) -> int:
    return int(setup.get("registration_capacity", setup.get("event_capacity", 16)))


def _numbered(template: Step, number: int) -> Step:
    """The template's op, ``number`` later: its time, and the counter at the end of its text."""
    wall, logical = template["ts"]
    value = re.sub(
        r"\d+$",
        lambda digits: str(int(digits[0]) + number).zfill(len(digits[0])),
        template.get("value") or "",
    )
    return {**template, "ts": [wall + number, logical], "value": value}


def _end_of(step: Step) -> FeedEnd:
    error = step.get("error")
    if error is None:
        return FINISHED
    reason = str(error).removeprefix("REASON_")
    if reason in EndReason.__members__ and reason != error:
        return FeedEnd(EndReason[reason])
    return FeedEnd(EndReason.FAILED, str(error))


def _end_difference(expected: str | None, end: FeedEnd | None) -> str | None:
    if end is None:
        return f"expected the feed to end with {expected}, but it goes on"
    if expected is None:
        fits = end.reason is EndReason.FINISHED
    elif expected.startswith("REASON_"):
        fits = end.reason.name == expected.removeprefix("REASON_")
    elif expected == "any":
        fits = end.reason is not EndReason.FINISHED
    elif end.reason is EndReason.CANCELLED:  # in one l or two, of a stream or its context
        fits = "cancel" in expected.lower()
    else:
        fits = expected.replace("_", " ").lower() in end.detail.lower()
    return None if fits else f"expected the feed to end with {expected}, but it ended with {end}"


def _refusal_difference(expected: str | None, error: Exception) -> str | None:
    """A refusal by the GC threshold and one by the span are told apart; the case may leave it open."""
    if expected is None or expected == "any":
        return None
    fits = ("gc" in expected.lower()) is isinstance(error, StartBelowGC)
    return None if fits else f"expected {expected}, got {error}"


def _difference(what: str, expected: object, seen: object) -> str | None:
    return None if seen == expected else f"expected {what} {expected}, got {seen}"


# ---- pushes and scans ----


def _answer(step: Step) -> PushAnswer | None:
    returns = step.get("returns")
    if returns is None:
        return None
    txns = tuple(
        PushTarget(
            txn_of(name), TxnStatus[status.upper()], at(ts), tuple(map(span_of, spans[0] if spans else ()))
        )
        for name, status, ts, *spans in returns
    )
    return PushAnswer(txns, bool(step.get("ambiguous", False)))


def _push_difference(step: Step, answer: PushAnswer, resolutions: list[Any]) -> str | None:
    if "expect_ops" in step:
        failure = _difference("ops", step["expect_ops"], list(map(op_text, ops_of(answer))))
        if failure is not None:
            return failure
    seen = [
        [name_of(item.txn_id), [item.span.start.decode(), item.span.end.decode()]] for item in resolutions
    ]
    return _difference("resolutions", step["expect_resolve"], seen) if "expect_resolve" in step else None


def _is_lock(fields: Step) -> bool:
    return "intent" in fields or "lock" in fields


def _lock(fields: Step) -> Lock:
    strength = LockStrength(fields.get("lock", "intent"))
    txn = txn_of(fields.get("intent") or fields["txn"])
    return Lock(
        fields["key"].encode(), txn, fields.get("txn_key", "").encode(), at(fields.get("ts")), strength
    )
