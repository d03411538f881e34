"""Several tables at one cut: rows of all members are released up to the lowest of their frontiers.

The joint frontier is the minimum of the members' frontiers; there is none before each member has a frontier.
Updates at or above the joint frontier are held. A member's AS OF is its first frontier. The joint snapshot is
complete once the joint frontier is above the highest AS OF. One frontier is stored for all members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.errors import ProtocolError
from tidegate.subscribe.updates.first_error import FirstError
from tidegate.subscribe.updates.frontier import Frontier
from tidegate.subscribe.updates.update import Update


@dataclass(frozen=True, slots=True)
class JointRelease:
    """The updates that are complete in all members.

    Attributes:
        frontier: the joint frontier.
        updates: by member, the updates below ``frontier`` that were not released before, in the order of
            timestamps.
        is_snapshot: whether the joint snapshot is complete with this release.
        resumable: whether a resume can begin at ``frontier``; ``False`` until the joint snapshot is complete.
    """

    frontier: Frontier
    updates: Mapping[str, tuple[Update, ...]]
    is_snapshot: bool
    resumable: bool


class Cohort:
    """The members of one joint subscription, by their names."""

    __slots__ = ("_first_error", "_frontiers", "_held", "_openings", "_snapshot_due", "frontier")

    def __init__(self, members: Iterable[str], *, resumed: bool = False) -> None:
        """``resumed`` says that the members were begun without snapshots, at one frontier.

        Raises ``ValueError`` if there are no members.
        """
        self._held: dict[str, list[Update]] = {name: [] for name in members}
        if not self._held:
            raise ValueError("a cohort without members would never release anything")
        self._first_error = FirstError()
        self._openings: dict[str, Frontier] = {}
        self._frontiers: dict[str, Frontier] = {}
        self._snapshot_due = not resumed
        #: The joint frontier; ``None`` before the first release.
        self.frontier: Frontier | None = None

    def data(self, member: str, update: Update) -> None:
        """Hold an update of a member.

        Raises ``ProtocolError`` for an update below the member's frontier, and for a name that no member
        has.
        """
        with self._first_error:
            held = self._held_of(member)
            last = self._frontiers.get(member)
            if last is not None and update.time < last:
                raise ProtocolError(
                    f"{member}: a row at {update.time}, below the frontier {last}, which had closed it"
                )
            held.append(update)

    def progress(self, member: str, frontier: Frontier) -> JointRelease | None:
        """Take a member's frontier, and return the updates that it releases.

        Returns ``None`` before every member has a frontier, and if the joint frontier does not rise. Raises
        ``ProtocolError`` for a frontier below the member's last one.
        """
        with self._first_error:
            return self._progress(member, frontier)

    def _progress(self, member: str, frontier: Frontier) -> JointRelease | None:
        self._held_of(member)
        last = self._frontiers.get(member)
        if last is not None and frontier < last:
            raise ProtocolError(f"{member}: the frontier falls from {last} to {frontier}")
        self._openings.setdefault(member, frontier)
        self._frontiers[member] = frontier
        if len(self._frontiers) < len(self._held):
            return None
        joint = min(self._frontiers.values())
        return self._release(joint) if self.frontier is None or joint > self.frontier else None

    def _release(self, joint: Frontier) -> JointRelease:
        self.frontier = joint
        is_snapshot = self._snapshot_due and joint > max(self._openings.values())
        self._snapshot_due = self._snapshot_due and not is_snapshot
        updates = {}
        for member, held in self._held.items():
            complete = sorted((each for each in held if each.time < joint), key=lambda each: each.time)
            self._held[member] = [each for each in held if each.time >= joint]
            updates[member] = tuple(complete)
        return JointRelease(joint, updates, is_snapshot, resumable=not self._snapshot_due)

    def _held_of(self, member: str) -> list[Update]:
        held = self._held.get(member)
        if held is None:
            raise ProtocolError(f"{member} is no member of this subscription: {', '.join(self._held)}")
        return held
