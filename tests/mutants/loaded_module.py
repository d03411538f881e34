"""A module that this process has imported, in which the code of functions is exchanged.

With the code of a mutant, a function has the slip from its next call on, and nothing is imported again. With
counting code it tells which of its statements run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

from tests.mutants.mutations import Mutant

#: The global name by which counting code calls the function that counts.
_COUNT: Final = "_count_statement"


class NotInFunction(Exception):
    """The mutant stands where code runs once, while its module is imported."""


class LoadedModule:
    """The module at ``path``, which is relative to ``root``. Its statements are numbered."""

    def __init__(self, root: Path, path: str) -> None:
        self._path = path
        self._file = root / path
        self._source = self._file.read_bytes()
        self._statements = [
            statement
            for function in _outermost(ast.parse(self._source))
            for statement in ast.walk(function)
            if isinstance(statement, ast.stmt) and statement is not function
        ]
        self._codes = list(_codes_of_functions(compile(self._source, self._file, "exec")))
        module = import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        self._globals = vars(module)
        self._functions = {
            (function.__code__.co_qualname, function.__code__.co_firstlineno): function
            for function in _functions_of(self._globals, module.__name__)
        }

    def statement_of(self, mutant: Mutant) -> int:
        """The number of the innermost statement that has the mutant in it.

        :raises NotInFunction: it stands in none of a function
        """
        before = self._source[: mutant.start]
        place = before.count(b"\n") + 1, mutant.start - before.rfind(b"\n") - 1
        around = [number for number, statement in enumerate(self._statements) if _has(statement, place)]
        if not around:
            raise NotInFunction
        return min(around, key=lambda number: _size(self._statements[number]))

    def count(self, count: Callable[[int], object]) -> None:
        """From now on, functions call ``count`` with the number of each statement before it runs."""
        tree = ast.parse(self._source)
        numbers = {
            (statement.lineno, statement.col_offset, type(statement)): number
            for number, statement in enumerate(self._statements)
        }
        for node in ast.walk(tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list):
                    setattr(node, name, list(_counting(block, numbers)))
        self._globals[_COUNT] = count
        self._exchange(compile(ast.fix_missing_locations(tree), self._file, "exec"))

    def put(self, mutant: Mutant) -> None:
        """Put the slip into the function that has it.

        :raises NotInFunction: no function of the module can have it
        """
        self._exchange(self.code_with(mutant))

    def code_with(self, mutant: Mutant) -> CodeType:
        """The code of the module with the slip.

        :raises NotInFunction: the slip is in no function of it
        """
        code = compile(mutant.put_into(self._source), self._file, "exec")
        if not any(self._exchanged(code)):
            raise NotInFunction
        return code

    def _exchange(self, module: CodeType) -> None:
        for function, code in self._exchanged(module):
            function.__code__ = code

    def _exchanged(self, module: CodeType) -> Iterator[tuple[FunctionType, CodeType]]:
        """The functions that this code of the module has other code for. Lines may have moved."""
        changed = list(_codes_of_functions(module))
        if [code.co_qualname for code in self._codes] != [code.co_qualname for code in changed]:
            return
        for before, after in zip(self._codes, changed, strict=True):
            function = self._functions.get((before.co_qualname, before.co_firstlineno))
            if function is not None and _differ(before, after):
                if before.co_freevars != after.co_freevars:  # such as a call of super() that is left out
                    return
                yield function, after


def _has(statement: ast.stmt, place: tuple[int, int]) -> bool:
    end = statement.end_lineno or 0, statement.end_col_offset or 0
    return (statement.lineno, statement.col_offset) <= place < end


def _size(statement: ast.stmt) -> tuple[int, int]:
    lines = (statement.end_lineno or 0) - statement.lineno
    return lines, (statement.end_col_offset or 0) - statement.col_offset


def _counting(
    block: list[ast.stmt], numbers: dict[tuple[int, int, type[ast.stmt]], int]
) -> Iterator[ast.stmt]:
    for statement in block:
        number = numbers.get((statement.lineno, statement.col_offset, type(statement)))
        if number is not None:
            call = ast.Call(ast.Name(_COUNT, ast.Load()), [ast.Constant(number)], [])
            yield ast.copy_location(ast.Expr(call), statement)
        yield statement


def _outermost(tree: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    """The functions of a module and of its classes, without those inside a function."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _outermost(node)


def _codes_of_functions(code: CodeType) -> Iterator[CodeType]:
    """The code of the same functions, out of the code of a module or of a class."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and not constant.co_name.startswith("<"):
            if constant.co_flags & 2:  # CO_NEWLOCALS: a function, not the body of a class
                yield constant
            else:
                yield from _codes_of_functions(constant)


def _functions_of(names: dict[str, object], module: str) -> Iterator[FunctionType]:
    """The functions that stand under these names, in the module's classes too, and inside of decorators."""
    for value in list(names.values()):
        if isinstance(value, type):
            if value.__module__ == module:
                yield from _functions_of(dict(vars(value)), module)
            continue
        for inner in (value, *(getattr(value, name, None) for name in ("fget", "func", "__wrapped__"))):
            function = inner.__func__ if isinstance(inner, staticmethod | classmethod) else inner
            if isinstance(function, FunctionType) and function.__module__ == module:
                yield function


def _differ(before: CodeType, after: CodeType) -> bool:
    """Whether the two do something else; lines do not count."""
    if (before.co_code, before.co_names, len(before.co_consts)) != (
        after.co_code,
        after.co_names,
        len(after.co_consts),
    ):
        return True
    return any(
        _differ(left, right)
        if isinstance(left, CodeType) and isinstance(right, CodeType)
        else (type(left), left) != (type(right), right)
        for left, right in zip(before.co_consts, after.co_consts, strict=True)
    )
