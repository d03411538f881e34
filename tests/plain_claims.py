"""A model of ranges' claims that is as simple as possible: it works key by key, without a bound on memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegate.processor.claimed_part import HELD_MS


class Told(NamedTuple):
    """An event: the claim of a range, and what the range has resolved. Keys are numbers. A claim sets the
    limit ``by``."""

    range_id: int
    generation: int
    start: int
    end: int
    resolved: int
    by: int
    now_ms: int


class Ended(NamedTuple):
    """An event: a range has ended."""

    range_id: int


Event = Told | Ended


@dataclass
class _Key:
    """The claims of a key: the generation of each range, and its limit for lower generations."""

    claims: dict[int, tuple[int, int]] = field(default_factory=dict)
    taken: list[tuple[int, int]] = field(default_factory=list)
    contested: set[int] = field(default_factory=set)
    until_ms: int | None = None

    def free(self) -> None:
        self.taken, self.contested, self.until_ms = [], set(), None

    def forget(self, range_id: int) -> None:
        """Take a claim away. It still limits the claims of lower generations."""
        gone = self.claims.pop(range_id, None)
        past = self.taken if gone is None else [*self.taken, gone]
        lowest = min((generation for generation, _ in self.claims.values()), default=1 << 63)
        self.taken = [each for each in past if each[0] > lowest]

    def claim(self, range_id: int, generation: int, by: int) -> None:
        others = {each: claim[0] for each, claim in self.claims.items() if each != range_id}
        same = {each for each, other in others.items() if other == generation}
        known = [others[each] for each in self.contested if each in others]
        if same or (known and generation >= min(known)):
            self.contested |= same | {range_id}
        self.forget(range_id)
        self.claims[range_id] = (generation, by)

    def leave(self, range_id: int) -> None:
        self.forget(range_id)
        if range_id in self.contested:
            self.contested.remove(range_id)
            if len(self.contested) == 1:
                self.until_ms = None
            elif not self.contested:
                self.free()

    def end(self, range_id: int) -> None:
        past = self.taken
        self.forget(range_id)
        self.taken = past
        if range_id in self.contested:
            self.contested.remove(range_id)
            if len(self.contested) < 2:
                self.free()

    def look(self, range_id: int, resolved: int, now_ms: int) -> None:
        if self.contested == {range_id}:
            if self.until_ms is None:
                self.until_ms = now_ms + HELD_MS
            elif now_ms > self.until_ms:
                self.free()
            return
        mine = self.claims[range_id][0]
        limits = [by for generation, by in (*self.taken, *self.claims.values()) if generation > mine]
        if range_id not in self.contested and resolved > min(limits, default=1 << 63):
            highest = max(self.claims, key=lambda each: self.claims[each][0])
            self.contested = (self.contested or {highest}) | {range_id}
            self.until_ms = None


class PlainClaims:
    """The model of ``tidegate.processor.range_claims.RangeClaims``."""

    def __init__(self, keys: int) -> None:
        self.keys = [_Key() for _ in range(keys)]
        self._told: dict[int, Told] = {}

    @property
    def held(self) -> set[int]:
        """The keys that several ranges have at the same time."""
        return {number for number, key in enumerate(self.keys) if key.contested}

    def count(self, events: Sequence[Event]) -> list[tuple[Told, set[int]]]:
        """Take the events. Returns the ``Told`` events, each with those of its keys that count."""
        counted = [(event, self._apply_event(event)) for event in events]
        return [(event, keys - self.held) for event, keys in counted if isinstance(event, Told)]

    def _apply_event(self, event: Event) -> set[int]:
        if isinstance(event, Ended):
            self._end(event.range_id)
            return set()
        self._claim(event)
        return set(range(event.start, event.end)) - self.held

    def _end(self, range_id: int) -> None:
        for key in self._of(self._told.pop(range_id, None)):
            key.end(range_id)
            if not key.claims:
                key.free()

    def _claim(self, new: Told) -> None:
        old = self._told.get(new.range_id)
        if old is not None and new.generation < old.generation:
            return
        if old is None or new[1:4] != old[1:4]:
            self._told[new.range_id] = new
            for number, key in enumerate(self.keys):
                if new.start <= number < new.end:
                    key.claim(new.range_id, new.generation, max(new.by, new.resolved))
                elif old is not None and old.start <= number < old.end:
                    key.leave(new.range_id)
                    if not key.claims:
                        key.free()
        for key in self._of(new):
            key.look(new.range_id, new.resolved, new.now_ms)

    def _of(self, told: Told | None) -> Iterable[_Key]:
        return () if told is None else self.keys[told.start : told.end]
