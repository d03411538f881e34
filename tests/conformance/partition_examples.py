"""Examples of keys, their hashes and partitions, in the forms in which a case may spell them.

A number means something by the names above it: a key by its text or hexadecimal (``key_hex``), a hash
(``hash``, ``fnv1a``), a partition (``partition``, ``partition_of_8``), how many partitions there are (``8``,
``num_partitions``, the option ``partitions``). The names may be nested in any order, lists may hold objects
or pairs of key and number, and numbers alone belong to the case's ``keys`` or ``partitions`` in their order.
What has no meaning by these rules is an error, and never passed over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, Final

from tests.conformance.case import Case
from tidegate.changefeed.encoding.partition import fnv1a_32, partition_of

_PARTITION: Final = re.compile(r"(?:\w*_)?partitions?(?:_of|_index|_number|_by_count)?(?:_?(?P<count>\d+))?")
_HASH: Final = re.compile(
    r"(?:\w+_)?(?:hash|fnv_?1a|fnv_?32_?1?a)(?:_?32)?(?:_(?:hex|hash|signed|unsigned|int32|uint32))?"
)
_BOTH: Final = re.compile(rf"(?:{_HASH.pattern})_and_(?:{_PARTITION.pattern})")
_LISTS: Final = frozenset({"examples", "keys"})
_COUNTS: Final = frozenset({"count", "n", "of", "num_partitions", "partition_count", "number_of_partitions"})
_KEYS: Final = frozenset({"key", "key_text", "key_hex", "key_bytes_hex"})
_ALGORITHMS: Final = frozenset({"algorithm", "hash_function", "partitioner"})
#: Members that say something to people.
REMARKS: Final = frozenset({"note", "comment", "source", "provenance"})
_ALGORITHM: Final = re.compile(r"fnv[-_ ]?1a|fnv[-_ ]?32[-_ ]?a", re.IGNORECASE)
_HEXADECIMAL: Final = re.compile(r"(?:0x)?[0-9a-f]+", re.IGNORECASE)
_DECIMAL: Final = re.compile(r"-?\d+")


class _About(Enum):
    """The meaning of a number; ``ANY`` where no name has said it yet."""

    ANY = auto()
    PARTITION = auto()
    HASH = auto()
    HASH_AND_PARTITION = auto()


@dataclass(frozen=True, slots=True)
class Example:
    """A key, and its partition among ``partitions`` or its hash, whichever is expected.

    ``hashes`` are the numbers that the expected hash may mean: ``12345678`` is decimal or hexadecimal.
    """

    key: bytes
    partitions: int = 0
    partition: int | None = None
    hashes: tuple[int, ...] = ()

    def difference(self) -> str | None:
        """Return what the partitioner says otherwise, or ``None``."""
        if self.partition is not None and partition_of(self.key, self.partitions) != self.partition:
            found = partition_of(self.key, self.partitions)
            return f"key {self.key!r}: expected partition {self.partition} of {self.partitions}, got {found}"
        if self.hashes and fnv1a_32(self.key) not in self.hashes:
            return f"key {self.key!r}: expected the hash {self.hashes[0]}, got {fnv1a_32(self.key)}"
        return None


def is_example(name: str) -> bool:
    """Whether a member of an expectation is about examples: by its name, or as the text of a key."""
    return (
        name in _LISTS | _KEYS | _COUNTS | _ALGORITHMS
        or name.startswith(("[", "{"))
        or _about(name, _About.ANY) is not _About.ANY
    )


def examples_in(case: Case) -> list[Example]:
    """The examples of a case; none when it expects something else. ``ValueError`` for an unknown form."""
    expect = {name: value for name, value in case["expect"].items() if is_example(name)}
    if not expect:
        return []
    found = list(_Reader.of(case).read(expect))
    if not found:
        raise ValueError(f"the runner cannot read partition examples of this form: {expect}")
    return found


@dataclass(frozen=True, slots=True)
class _Reader:
    """A reader of values; it knows what the names above a value have said."""

    keys: tuple[bytes, ...]
    counts: tuple[int, ...]
    key: bytes | None = None
    about: _About = _About.ANY

    @classmethod
    def of(cls, case: Case) -> _Reader:
        """Return what the case says outside of its expectation."""
        holders: list[Mapping[str, Any]] = [case.get("options") or {}, case]
        named = next((holder["keys"] for holder in holders if isinstance(holder.get("keys"), list)), ())
        counts = next((holder["partitions"] for holder in holders if "partitions" in holder), ())
        key = next((_key_in(holder) for holder in holders if holder.keys() & _KEYS), None)
        return cls(
            tuple(_key_bytes(key) for key in named),
            tuple(map(_whole, counts if isinstance(counts, list | tuple) else [counts])),
            key,
        )

    def read(self, value: Any) -> Iterator[Example]:
        """The examples in a value."""
        if isinstance(value, Mapping):
            yield from self._object(value)
        elif isinstance(value, list):
            yield from self._list(value)
        else:
            yield self._number(value)

    def _object(self, members: Mapping[str, Any]) -> Iterator[Example]:
        if members.keys() & _KEYS:
            return self._members(members, replace(self, key=_key_in(members)))
        texts = members.get("keys")
        if isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts):
            known = replace(self, keys=tuple(map(_key_bytes, texts)))
            return self._members({name: v for name, v in members.items() if name != "keys"}, known)
        return self._members(members, self)

    def _members(self, members: Mapping[str, Any], reader: _Reader) -> Iterator[Example]:
        counts = {name for name in members if _is_count(name, members)}
        if counts:
            reader = replace(reader, counts=tuple(_whole(members[name]) for name in counts))
        for name, value in members.items():
            if name not in counts | _KEYS | REMARKS and not _names_algorithm(name, value):
                yield from reader._below(name).read(value)

    def _below(self, name: str) -> _Reader:
        """Return what is known below a member of this name."""
        about = _about(name, _About.ANY)
        if about is not _About.ANY:
            match = _PARTITION.fullmatch(name) or _BOTH.fullmatch(name)
            count = match["count"] if match else None
            return replace(self, about=about, counts=(int(count),) if count else self.counts)
        if name in _LISTS:
            return self
        if name.isdecimal() and self.about is not _About.HASH:
            return replace(self, counts=(int(name),), about=_About.PARTITION)
        if self.key is None or name.startswith(("[", "{")):
            return replace(self, key=_key_bytes(name))
        raise ValueError(f"the runner does not know what {name!r} says of the partition of key {self.key!r}")

    def _list(self, values: Sequence[Any]) -> Iterator[Example]:
        if self.key is not None and self.about is _About.HASH_AND_PARTITION and len(values) == 2:
            yield replace(self, about=_About.HASH)._number(values[0])
            yield replace(self, about=_About.PARTITION)._number(values[1])
            return
        if all(isinstance(value, Mapping) for value in values):
            for value in values:
                yield from self.read(value)
            return
        if all(isinstance(value, list) and len(value) == 2 for value in values):
            for key, value in values:
                yield from replace(self, key=_key_bytes(key)).read(value)
            return
        if self.keys and len(self.keys) == len(values):
            for known, value in zip(self.keys, values, strict=True):
                yield from replace(self, key=known).read(value)
            return
        if self.key is not None and self.about is not _About.HASH and len(self.counts) == len(values):
            for count, value in zip(self.counts, values, strict=True):
                yield replace(self, counts=(count,))._number(value)
            return
        raise ValueError(f"the runner cannot read partition examples from the list {values!r}")

    def _number(self, value: Any) -> Example:
        if self.key is None:
            raise ValueError(f"the partition example {value!r} does not give its key as text")
        if self.about is _About.HASH:
            return Example(self.key, hashes=_hashes(value))
        if self.about is _About.HASH_AND_PARTITION:
            raise ValueError(
                f"the example of key {self.key!r} gives a hash or a partition, not both: {value!r}"
            )
        if len(self.counts) != 1 or self.counts[0] < 1:
            raise ValueError(f"the example of key {self.key!r} does not say of how many partitions")
        return Example(self.key, self.counts[0], _whole(value))


def _about(name: str, default: _About) -> _About:
    if _BOTH.fullmatch(name):
        return _About.HASH_AND_PARTITION
    if name in _COUNTS:
        return default
    if _PARTITION.fullmatch(name):
        return _About.PARTITION
    return _About.HASH if _HASH.fullmatch(name) else default


def _is_count(name: str, members: Mapping[str, Any]) -> bool:
    """``partitions`` is a number of them where another member says which one."""
    if not _is_whole(members[name]):
        return False
    others = {other for other in members if other != name and other not in _COUNTS}
    which = any(_about(other, _About.ANY) is not _About.ANY for other in others)
    return name in _COUNTS or (name == "partitions" and which)


def _names_algorithm(name: str, value: Any) -> bool:
    """Whether the member says how keys are hashed. Raises ``ValueError`` for another way than FNV-1a."""
    is_name = name in _ALGORITHMS or (
        _about(name, _About.ANY) is _About.HASH
        and isinstance(value, str)
        and not (_HEXADECIMAL.fullmatch(value) or _DECIMAL.fullmatch(value))
    )
    if is_name and not _ALGORITHM.search(str(value)):
        raise ValueError(f"the case hashes keys by {value!r}, which the runner does not know as FNV-1a")
    return is_name


def _key_in(members: Mapping[str, Any]) -> bytes:
    name = next(name for name in members if name in _KEYS)
    return bytes.fromhex(members[name]) if name.endswith("hex") else _key_bytes(members[name])


def _key_bytes(key: Any) -> bytes:
    """A key's text, or the text of a key that is given as a list of values."""
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, list):
        return json.dumps(key, ensure_ascii=False).encode()
    raise ValueError(f"the partition example {key!r} does not give its key as text")


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and _DECIMAL.fullmatch(str(value)) is not None


def _whole(value: Any) -> int:
    if not _is_whole(value):
        raise ValueError(f"{value!r} is no number of a partition or of partitions")
    return int(value)


def _hashes(value: Any) -> tuple[int, ...]:
    """A hash as a number or as text; a negative one is the unsigned one of the same bits."""
    text = str(value)
    found = [int(text) % 2**32] if _is_whole(value) else []
    if isinstance(value, str) and _HEXADECIMAL.fullmatch(value):
        found.append(int(value, 16) % 2**32)
    if not found:
        raise ValueError(f"{value!r} is no hash")
    return tuple(found)
