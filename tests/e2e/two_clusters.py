"""Two Kafka clusters whose brokers are reached by one address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from stack.kafka import KafkaBroker
from tests.moving_address import MovingAddress
from tests.shared_broker import PATIENT


@dataclass(frozen=True, slots=True)
class TwoClusters:
    """The clusters ``home`` and ``away``, and the one ``address`` that means either of them."""

    address: MovingAddress
    home: KafkaBroker
    away: KafkaBroker

    @property
    def servers(self) -> str:
        """The address in the form that clients take."""
        return self.address.address

    def turn_to(self, cluster: KafkaBroker) -> None:
        """Have the address mean the cluster. All clients have to connect again."""
        self.address.means = cluster.bootstrap
        self.address.cut()


@contextmanager
def two_clusters() -> Iterator[TwoClusters]:
    """Start both; the address means neither yet."""
    with closing(MovingAddress()) as address:
        settings = {**PATIENT, "advertised.listeners": f"PLAINTEXT://{address.address}"}
        with KafkaBroker(settings=settings) as home, KafkaBroker(settings=settings) as away:
            yield TwoClusters(address, home, away)
