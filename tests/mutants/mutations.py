"""The mutants of a module: its source with one small slip in it, as a review would let it through.

A slip is a comparison that takes in its border or leaves it out, a condition turned round, a number off by
one, a call left out. Not mutated are messages, annotations, asserts and named constants of the module: their
slips say nothing about the tests of the logic.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
#: A change of these turns a condition round by itself.
_TURNING: Final = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One slip: the bytes from ``start`` to ``end`` of the file at ``path`` become ``after``.

    ``within`` names the function, ``Parking.due`` for example; it is empty at a module's top level.
    """

    path: str
    within: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def put_into(self, source: bytes) -> bytes:
        """The source with the slip in it."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.within or 'module'}: `{self.before}` -> `{self.after}`"


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Every mutant of a module, in the order of its source."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda mutant: (mutant.start, mutant.end, mutant.after))


class _Finder(ast.NodeVisitor):
    """Collects the mutants of one module."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._within: list[str] = []  # the classes and functions around what is visited
        self.found: list[Mutant] = []

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _add(self, node: ast.expr | ast.stmt, after: str) -> None:
        start, end = self._span(node)
        before = self._source[start:end].decode()
        self.found.append(Mutant(self._path, ".".join(self._within), node.lineno, start, end, before, after))

    # ---- what is left alone ----

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave a message alone."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Leave an assertion alone: it narrows a type."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """``zip(..., strict=True)`` asserts that both are of one length, which no input changes."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._within and node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not self._within:
            return
        if isinstance(node.targets[0], ast.Attribute | ast.Subscript) and self._within[-1] != "__init__":
            self._add(node, "pass")
        self.visit(node.value)

    # ---- scopes ----

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._enter(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self._enter(node.name, node.body)

    def _enter(self, name: str, body: list[ast.stmt]) -> None:
        self._within.append(name)
        for statement in body:
            self.visit(statement)
        self._within.pop()

    # ---- statements ----

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add(node, "pass")
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, "pass")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._add(node, "pass")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._add(node, "pass")
        else:
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "pass")
        self.visit(node.value)

    # ---- conditions ----

    def visit_If(self, node: ast.If) -> None:
        self._turn_round(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._turn_round(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._turn_round(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._turn_round(condition)
        self.generic_visit(node)

    def _turn_round(self, condition: ast.expr) -> None:
        """Negate a condition, unless a change of its only operator does that already."""
        if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            return
        if isinstance(condition, ast.Compare) and isinstance(condition.ops[0], _TURNING):
            return
        self._add(condition, f"not ({self._text(condition)})")

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, self._text(node.operand))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        self._add(node, f"({ast.unparse(other)})")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, op in enumerate(node.ops):
            ops = [*node.ops[:place], _COMPARISONS[type(op)](), *node.ops[place + 1 :]]
            self._add(node, ast.unparse(ast.Compare(node.left, ops, node.comparators)))
        self.generic_visit(node)

    # ---- values ----

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = _OPERATORS.get(type(node.op))
        if other is not None:
            self._add(node, f"({ast.unparse(ast.BinOp(node.left, other(), node.right))})")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            self._add(node.func, _FUNCTIONS[node.func.id])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, str(not node.value))
        elif isinstance(node.value, int):
            self._add(node, str(node.value + 1))
