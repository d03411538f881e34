"""Removes dead members from the consumer group, so that a restarted worker need not wait.

A member is dead when its process has died. The group waits for it until its session expires, and gives nobody
a partition meanwhile. A worker that starts again on the same data directory knows more: it has the
directory's lock, so the process before it is dead. Each worker notes in the directory the name that the group
gave it. Its successor first asks to join the group, and then has the group forget that name.

The order matters. A group that loses its last member before the next one has asked is empty, and an empty
group waits for more members before it gives out partitions (``group.initial.rebalance.delay.ms``: 3 s unless
the brokers say otherwise).

A directory that was copied while its worker ran names a living member. That member is removed once, and joins
again at its next heartbeat. From then on each directory names its own member. If the living member has to
write before it has noticed, it is fenced. It ends then, as every worker does that is wrongly believed to be
dead, and joins when it starts again.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import structlog
from aiokafka.client import ConnectionGroup
from aiokafka.errors import KafkaError, NoError, UnknownMemberIdError, for_code
from aiokafka.protocol.group import LeaveGroupRequest

from tidegate.errors import TopologyError

_log = structlog.get_logger("tidegate.worker")
_IS_OUT: Final = (NoError, UnknownMemberIdError)


class MemberNames(Protocol):
    """The place where names of members outlast the process: the data directory."""

    def members(self) -> tuple[str, ...]:
        """Return the names that were noted last."""

    def note_members(self, names: tuple[str, ...]) -> None:
        """Keep these names. Raises ``TopologyError`` when that cannot be done."""


class Membership:
    """The name that the group gave this worker, and the names of its dead predecessors.

    A worker with a ``fixed`` name (``instance_id``) takes its former place in the group by that name.
    """

    def __init__(self, names: MemberNames, *, fixed: bool = False) -> None:
        self._names = names
        self._fixed = fixed
        self._own = ""
        #: Members of dead processes that the group may still wait for.
        self.dead = names.members()

    @property
    def settled(self) -> bool:
        """Whether nothing is urgent: this worker's name is noted, and no dead member is left in the group."""
        return bool(self._own or self._fixed) and not self.dead

    def note(self, name: str) -> None:
        """Note the name that the group has given this worker."""
        if name != self._own and not self._fixed:
            self._own = name
            self._keep()

    def forget_dead(self) -> None:
        """Forget the dead members: the group waits for none of them any more."""
        self.dead = ()
        self._keep()

    def _keep(self) -> None:
        names = tuple(name for name in (*self.dead, self._own) if name)
        try:
            self._names.note_members(names)
        except TopologyError as error:
            _log.warning("a restart of this worker will wait for its session to expire", cause=str(error))


async def take_out(coordinator: Any, client: Any, names: tuple[str, ...]) -> bool:
    """Have the group forget these members. Returns whether it has.

    The request does not use the coordinator's connection. On that connection this worker's request to join
    still waits for its answer, and that answer may come only after the request of this function.
    """
    for name in names:
        request = LeaveGroupRequest(coordinator.group_id, name)
        try:
            answer = await client.send(coordinator.coordinator_id, request, group=ConnectionGroup.DEFAULT)
        except KafkaError as error:
            _log.debug("the group was not told of a member that is gone", cause=repr(error))
            return False
        if for_code(answer.error_code) not in _IS_OUT:
            return False
        _log.info("the group waits no more for the process that was here before", member=name)
    return True
