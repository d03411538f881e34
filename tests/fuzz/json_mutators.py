"""JSON changed by its members: it parses, or nearly so, and says what no writer would say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from random import Random
from typing import Any, Final, TypeAlias

from tests.fuzz.mutators import damaged

#: Names of members and numbers of elements.
_Path: TypeAlias = tuple[Any, ...]

#: Texts that stand for JSON which Python's writer does not make.
_RAW: Final = {
    "@digits@": "9" * 5_000,
    "@zeros@": "0." + "0" * 5_000,
    "@beyond@": "1e999999999",
    "@tiny@": "1e-999999999",
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@half@": '"\\ud800"',
    "@lists@": "[" * 400 + "]" * 400,
    "@deep lists@": "[" * 30_000 + "]" * 30_000,
    "@objects@": '{"a":' * 400 + "1" + "}" * 400,
    "@twice@": '{"a":1,"a":2}',
}
_VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**70, -(2**63), 10**400, 1.5, 1e308, -0.0),
    *("", "x", "0", "-1", "0" * 50, "9" * 30 + ".0000000000", "\u0663.0000000000", "\0", "x" * 5_000),
    *([], {}, [[1]], [None] * 3, ["", ""], {"a": 1}, {"": {}}),
    *_RAW,
)


def altered_json(chance: Random, data: bytes) -> bytes:
    """The JSON with other members in a few places; damaged as bytes where it is none, and now and then."""
    if chance.random() < 0.2:
        return damaged(chance, data)
    try:
        root = [json.loads(data)]
    except (ValueError, RecursionError):
        return damaged(chance, data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        paths = list(_paths(root))[1:] or [(0,)]
        _alter(chance, root, chance.choice(paths), chance.choice(paths))
    return _text(root[0]).encode()


def _paths(value: Any, path: _Path = ()) -> Iterator[_Path]:
    yield path
    if isinstance(value, dict):
        for name in value:
            yield from _paths(value[name], (*path, name))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _paths(each, (*path, number))


def _alter(chance: Random, root: Any, path: _Path, other: _Path) -> None:
    """Change what stands at ``path``, now and then into what stands at ``other``: a type into a name."""
    elsewhere = deepcopy(reduce(getitem, other, root))
    holder, last = reduce(getitem, path[:-1], root), path[-1]
    draw = chance.random()
    if len(path) > 1 and draw < 0.15:
        del holder[last]
    elif len(path) > 1 and draw < 0.25 and isinstance(holder, dict):
        holder[chance.choice(("", "x", "v", "kind", "\0", "a" * 300))] = holder.pop(last)
    elif len(path) > 1 and draw < 0.3 and isinstance(holder, list):
        holder.insert(0, holder[last])
    elif draw < 0.4:
        holder[last] = [holder[last]]
    elif draw < 0.6:
        holder[last] = elsewhere
    else:
        holder[last] = deepcopy(chance.choice(_VALUES))


def _text(value: Any) -> str:
    text = json.dumps(value)
    if '"@' in text:
        for name, raw in _RAW.items():
            text = text.replace(f'"{name}"', raw)
    return text
