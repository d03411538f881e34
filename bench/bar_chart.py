"""A chart of bars as SVG, drawn by hand so that the same figures give the same bytes everywhere.

It has no font and no script of its own, and follows the reader's light or dark mode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

_WIDTH: Final = 760
_LABELS: Final = 250
_BARS: Final = 300
_TOP: Final = 58
_ROW: Final = 26
_BAR: Final = 14
_STYLE: Final = (
    "text{font:13px sans-serif;fill:#222}.title{font-weight:bold}.note{fill:#666}"
    ".bar{fill:#2a7f9e}.range,.axis{stroke:#222;fill:none}.aim{stroke:#b5472f;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.note{fill:#aaa}.range,.axis{stroke:#ddd}}"
)


class Bar(NamedTuple):
    """A figure. ``low`` and ``high`` are the least and the most of all runs. An ``aim`` is drawn as a
    line."""

    name: str
    value: float
    low: float
    high: float
    aim: float | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars below each other, from zero to the largest figure. ``note`` says what they are."""

    title: str
    note: str
    bars: tuple[Bar, ...]

    def svg(self) -> str:
        """Return the chart as SVG."""
        height = _TOP + _ROW * len(self.bars) + 8
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{_STYLE}</style>",
                f'<text class="title" x="0" y="16">{escape(self.title)}</text>',
                f'<text class="note" x="0" y="36">{escape(self.note)}</text>',
                *self._rows(),
                f'<path class="axis" d="M{_LABELS} {_TOP - 6}V{height - 4}"/>',
                "</svg>\n",
            ]
        )

    def _rows(self) -> Iterator[str]:
        most = max(max(bar.high, bar.aim or 0.0) for bar in self.bars)
        scale = _BARS / most
        for number, bar in enumerate(self.bars):
            middle = _TOP + _ROW * number + _ROW // 2 - 4
            yield from _row(bar, middle, scale)


def _row(bar: Bar, middle: int, scale: float) -> Iterator[str]:
    def x(value: float) -> str:
        return f"{_LABELS + value * scale:.1f}"

    yield f'<text x="{_LABELS - 8}" y="{middle + 4}" text-anchor="end">{escape(bar.name)}</text>'
    top = middle - _BAR // 2
    yield f'<rect class="bar" x="{_LABELS}" y="{top}" width="{bar.value * scale:.1f}" height="{_BAR}"/>'
    if bar.low < bar.high:
        ends = "".join(f"M{x(end)} {middle - 4}v8" for end in (bar.low, bar.high))
        yield f'<path class="range" d="M{x(bar.low)} {middle}H{x(bar.high)}{ends}"/>'
    if bar.aim is not None:
        yield f'<path class="aim" d="M{x(bar.aim)} {middle - _ROW // 2 + 2}v{_ROW - 4}"/>'
    furthest = max(bar.high, bar.aim or 0.0)
    yield f'<text x="{float(x(furthest)) + 8:.1f}" y="{middle + 4}">{_words(bar)}</text>'


def _words(bar: Bar) -> str:
    ranges = f" ({bar.low:g} to {bar.high:g})" if bar.low < bar.high else ""
    return f"{bar.value:g}{ranges}" + ("" if bar.aim is None else f", aim {bar.aim:g}")
