"""The consumer group's members that this data directory has had: those whose process died are taken out.

The group waits for a member that died until its session expires, and nobody is given a partition meanwhile.
A worker that starts again on the directory knows better: the directory's lock says that the process before it
is dead. So each worker leaves word there of the name that the group gave it, and its successor, once it has
asked to be let in, has the group forget that name.

The order matters. A group that loses its last member before the next one has asked is empty, and an empty
group waits for more members before it gives out partitions (``group.initial.rebalance.delay.ms``: 3 s unless
the brokers say otherwise).

A directory that was copied while its worker ran names a living member. That one is thrown out once, and from
then on each directory names its own. It joins again at its next heartbeat. One that has something to write
before it knows is fenced, ends as every worker that was taken for dead, and joins when it starts again.
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
    """Where names in the group outlast the process: the data directory."""

    def members(self) -> tuple[str, ...]:
        """The names that were noted last."""

    def note_members(self, names: tuple[str, ...]) -> None:
        """Keep these names. Raises ``TopologyError`` when that cannot be done."""


class Membership:
    """What this worker is called in its group, and who had its place before.

    A worker with a ``fixed`` name, ``instance_id``, takes its place in the group by that name.
    """

    def __init__(self, names: MemberNames, *, fixed: bool = False) -> None:
        self._names = names
        self._fixed = fixed
        self._own = ""
        #: Members of dead processes that the group may still wait for.
        self.dead = names.members()

    @property
    def settled(self) -> bool:
        """Whether there is nothing to do at once: this worker's name is kept, and nobody is waited for."""
        return bool(self._own or self._fixed) and not self.dead

    def note(self, name: str) -> None:
        """The group calls this worker so from now on."""
        if name != self._own and not self._fixed:
            self._own = name
            self._keep()

    def forget_dead(self) -> None:
        """The group waits for none of them any more."""
        self.dead = ()
        self._keep()

    def _keep(self) -> None:
        names = tuple(name for name in (*self.dead, self._own) if name)
        try:
            self._names.note_members(names)
        except TopologyError as error:
            _log.warning("a restart of this worker will wait for its session to expire", cause=str(error))


async def take_out(coordinator: Any, client: Any, names: tuple[str, ...]) -> bool:
    """Have the group forget these members; returns whether it has.

    The request takes a connection of its own: on the coordinator's the group's answer to this worker is
    awaited, which may come only afterwards.
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
