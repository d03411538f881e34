"""Examples of keys and their partitions, in the forms in which a case may spell them.

One key (``key`` or ``key_hex``, in the options, the case or the expectation) with ``partition`` and ``hash``;
keys by their text with a partition each; or lists of objects with these members, or of pairs. A form that
is not known here is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.conformance.case import Case
from tidegate.changefeed.partition import fnv1a_32, partition_of

PARTITION_NAMES: Final = ("partition", "partitions", "partition_of")
HASH_NAMES: Final = ("hash", "fnv1a", "fnv1a_32", "fnv32a")
_LISTS: Final = ("examples", "keys")
#: Members of an expectation that are examples.
EXAMPLE_MEMBERS: Final = frozenset((*PARTITION_NAMES, *HASH_NAMES, *_LISTS, "key", "key_hex"))


@dataclass(frozen=True, slots=True)
class Example:
    """A key, and of its partition among ``partitions`` and its hash those that are expected."""

    key: bytes
    partitions: int
    partition: int | None
    hash: int | None

    def difference(self) -> str | None:
        """What the partitioner says otherwise, or ``None``."""
        if self.partition is not None and partition_of(self.key, self.partitions) != self.partition:
            found = partition_of(self.key, self.partitions)
            return f"key {self.key!r}: expected partition {self.partition} of {self.partitions}, got {found}"
        if self.hash is not None and fnv1a_32(self.key) != self.hash:
            return f"key {self.key!r}: expected the hash {self.hash}, got {fnv1a_32(self.key)}"
        return None


def examples_in(case: Case) -> list[Example]:
    """The examples of a case; none when it expects something else. ``ValueError`` for an unknown form."""
    expect = case["expect"]
    if not expect.keys() & EXAMPLE_MEMBERS:
        return []
    found = list(_examples(case, expect))
    if not found or any(example.partition is None and example.hash is None for example in found):
        raise ValueError(f"the runner cannot read partition examples of this form: {expect}")
    return found


def _examples(case: Case, expect: Mapping[str, Any]) -> Iterator[Example]:
    for name in (*_LISTS, *PARTITION_NAMES, *HASH_NAMES):
        value = expect.get(name)
        hashed = name in HASH_NAMES
        if isinstance(value, dict):
            yield from (_of(case, {"key": key, "found": found}, hashed) for key, found in value.items())
        elif isinstance(value, list):
            yield from (_of(case, item, hashed) for item in _items(case, value))
    holders = (expect, case["options"], case)
    scalars = {
        name: value
        for holder in reversed(holders)
        for name, value in holder.items()
        if not isinstance(value, dict | list)
    }
    if expect.keys() & {"partition", *HASH_NAMES} and scalars.keys() & {"key", "key_hex"}:
        shown = {name: scalars[name] for name in ("key", "key_hex") if name in scalars}
        yield _of(case, shown | {name: value for name, value in expect.items() if name in scalars}, False)


def _items(case: Case, values: list[Any]) -> Iterable[Mapping[str, Any]]:
    keys = case["options"].get("keys", case.get("keys"))
    for at, value in enumerate(values):
        if isinstance(value, dict):
            yield value
        elif isinstance(value, list) and len(value) == 2:
            yield {"key": value[0], "found": value[1]}
        elif keys is not None and len(keys) == len(values):
            yield {"key": keys[at], "found": value}
        else:
            raise ValueError(f"the runner cannot read the partition example {value!r}")


def _of(case: Case, item: Mapping[str, Any], hashed: bool) -> Example:
    count = next(
        (
            item[name]
            for name in ("partitions", "count", "n", "num_partitions")
            if isinstance(item.get(name), int)
        ),
        case["options"].get("partitions", 0),
    )
    partition = item.get("partition", None if hashed else item.get("found"))
    stated = next((item[name] for name in HASH_NAMES if name in item), item.get("found") if hashed else None)
    if partition is not None and not count:
        raise ValueError(f"the example {dict(item)} does not say of how many partitions")
    return Example(_key(item), int(count), None if partition is None else int(partition), _number(stated))


def _key(item: Mapping[str, Any]) -> bytes:
    if "key_hex" in item:
        return bytes.fromhex(item["key_hex"])
    key = item.get("key")
    if isinstance(key, str):
        return key.encode()
    raise ValueError(f"the example {dict(item)} does not give its key as text")


def _number(value: Any) -> int | None:
    """A hash as a number or as hexadecimal text; a negative one as the unsigned of the same bits."""
    if value is None:
        return None
    return (int(value, 16) if isinstance(value, str) and not value.isdigit() else int(value)) % 2**32
