"""The bank: whatever happens to its transactions, no money is made or lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sim.log.history import History
from sim.log.sink import ListSink
from sim.options import StoreOptions
from sim.plan import OutcomeMix
from sim.simulation import Simulation
from sim.workloads.bank import Bank, BankOptions, balance_of
from tests.examples import examples
from tests.strategies import BASE_NS, store_options

_MIXES = st.builds(
    OutcomeMix,
    restart=st.sampled_from((0.0, 0.3)),
    abort=st.sampled_from((0.0, 0.3)),
    abandon=st.sampled_from((0.0, 0.2)),
)


@examples(5)
@given(st.integers(0, 2**32), store_options(), _MIXES)
def test_the_sum_of_the_balances_is_the_same_at_every_timestamp(
    seed: int, options: StoreOptions, mix: OutcomeMix
) -> None:
    bank = Bank(BankOptions(accounts=8, ranges=3, outcomes=mix), seed)
    history = History()
    simulation = Simulation(bank, ListSink(), history, options, seed=seed, base_ns=BASE_NS)
    simulation.run(60)
    simulation.finish()
    for timestamp in {version.timestamp for version in history}:
        rows = history.as_of(timestamp)
        assert sum(balance_of(bank.codec, key, row.value) for key, row in rows.items()) == bank.total


def test_money_moves() -> None:
    history = History()
    bank = Bank(BankOptions(accounts=8), 1)
    simulation = Simulation(bank, ListSink(), history, StoreOptions(), seed=1, base_ns=BASE_NS)
    simulation.run(30)
    simulation.finish()
    balances = {balance_of(bank.codec, version.key, version.value) for version in history}
    assert len(balances) > 10
    assert min(balances) >= 0
