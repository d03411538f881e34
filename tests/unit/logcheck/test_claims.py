"""Compares what children have taken over of a range with a plain list of it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from tests.hand_log import at, txn
from tidegate.logcheck.claims import PARTS_MAX, Claims
from tidegate.logcheck.memory import CheckedTxn
from tidegate.raftlog.entry import TxnId
from tidegate.spans import Span

_WHOLE: Final = Span(b"\x02", b"\x0c")
_SPANS: Final = (
    st.tuples(st.integers(0, 14), st.integers(0, 14))
    .filter(lambda ends: ends[0] != ends[1])
    .map(lambda ends: Span(bytes([min(ends)]), bytes([max(ends)])))
)
_INTENTS: Final = st.dictionaries(st.integers(0, 2).map(txn), st.integers(1, 2), max_size=3)


@given(st.lists(st.tuples(_SPANS, _INTENTS), max_size=8), _INTENTS)
def test_claims_say_what_a_list_of_all_of_them_says(
    taken: list[tuple[Span, dict[TxnId, int]]], left: dict[TxnId, int]
) -> None:
    claims, spans, total = Claims(), list[Span](), Counter[TxnId]()
    open_ = {txn_id: CheckedTxn(count, at(1)) for txn_id, count in left.items()}
    for span, intents in taken:
        assert claims.overlap(span) == any(span.overlaps(each) for each in spans)
        spans.append(span)
        total.update(intents)
        claims.take_keys(span)
        assert claims.take_intents(intents, open_) == (total == Counter(left))
        ends = min(each.start for each in spans), max(each.end for each in spans)
        assert claims.reach(_WHOLE) == (ends == _WHOLE)


def test_a_bounded_number_of_separate_parts_is_noted() -> None:
    claims = Claims()
    parts = [Span(b"%06d" % (2 * n), b"%06d" % (2 * n + 1)) for n in range(PARTS_MAX + 1)]
    for part in parts:
        assert not claims.forgot
        claims.take_keys(part)
    assert claims.forgot
    assert claims.overlap(parts[-2])
    assert not claims.overlap(parts[-1])
    claims.take_keys(Span(parts[0].start, parts[-2].end))
    assert claims.overlap(Span(parts[0].end, parts[1].start)), "what joins others always has room"
