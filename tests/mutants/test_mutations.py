"""Mutants are slips in the logic, each of them code that can be compiled."""

from __future__ import annotations

import ast
from random import Random

import pytest

from tests.mutants.__main__ import of_core
from tests.mutants.mutations import mutants_of
from tests.mutants.tree import ROOT


def slips(body: str) -> set[tuple[str, str]]:
    """Return what is mutated in the body of a function, and to what."""
    return {
        (mutant.before, mutant.after) for mutant in mutants_of("m.py", f"def f():\n    {body}\n".encode())
    }


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < b", {("a < b", "a <= b")}),
        ("return a is b", {("a is b", "a is not b")}),
        ("return 0 <= a", {("0 <= a", "0 < a"), ("0", "1")}),
        ("return not a", {("not a", "a")}),
        ("return a and b", {("a and b", "(a or b)")}),
        ("return a if b else c", {("b", "not (b)")}),
        ("return [a for a in b if c]", {("c", "not (c)")}),
        ("return a + b", {("a + b", "(a - b)")}),
        ("return min(a)", {("min", "max")}),
        ("return True", {("True", "False")}),
        ("a.b()", {("a.b()", "pass")}),
        ("a.b = c", {("a.b = c", "pass")}),
        ("raise a(b < c)", {("raise a(b < c)", "pass")}),
        ("return", {("return", "pass")}),
    ],
)
def test_a_slip_of_each_kind(body: str, expected: set[tuple[str, str]]) -> None:
    assert slips(body) == expected


@pytest.mark.parametrize(
    "body",
    [
        "'''What it does, in 3 words.'''",
        "return f'{a + 1} of {b}'",
        "assert a < b",
        "a: B | C",
        "return zip(a, b, strict=True)",
    ],
)
def test_messages_annotations_and_asserts_are_left_alone(body: str) -> None:
    assert slips(body) == set()


def test_named_constants_of_a_module_are_left_alone() -> None:
    assert mutants_of("m.py", b"LIMIT: Final = 600 * 1000\nOTHER = 1\n") == []


def test_a_mutant_says_where_it_is() -> None:
    source = "class A:\n    def f(self):\n        return 'ä', a < b\n".encode()
    (mutant,) = mutants_of("m.py", source)
    assert str(mutant) == "m.py:3 A.f: `a < b` -> `a <= b`"
    assert mutant.put_into(source).decode() == "class A:\n    def f(self):\n        return 'ä', a <= b\n"


def test_mutants_of_the_core_are_python() -> None:
    for mutant in Random(1).sample(of_core(), 100):
        ast.parse(mutant.put_into((ROOT / mutant.path).read_bytes()))
