"""The command line takes what README and pages tell people to type, and each statement is a feed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click
import pytest

from stack.places import CHECKOUT
from tidegate.changefeed.definition.feed import FeedId
from tidegate.changefeed.statement.definition import define_feed
from tidegate.cli.main import cli

_BLOCK: Final = re.compile(r"^```(?:sh)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED: Final = re.compile(r"^    (tidegate .*)$", re.MULTILINE)
_INLINE: Final = re.compile(r"`(tidegate [a-z][^`]*)`")
_COMMENT: Final = re.compile(r"(?:^|\s)#\s.*$", re.MULTILINE)
_COMMAND: Final = re.compile(r"(?:^|\$\(|(?<=[A-Z_=/\w.] ))(?=tidegate [a-z])", re.MULTILINE)
#: What a shell takes for the end of a command.
_ENDS: Final = frozenset({"\n", "&", ";", "&&", "|", ")", ">", "2>"})
_NOW_NS: Final = 1_795_653_066_000_000_000


class Written(NamedTuple):
    """A command as a page has it, in words; the first is the name of the first subcommand."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)[:60]}"


def _pages() -> Iterator[Path]:
    yield from (CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md")
    yield from sorted((CHECKOUT / "docs").glob("*.md"))
    yield from sorted((CHECKOUT / "docs" / "protocols").glob("*.md"))


def _words(text: str) -> tuple[str, ...]:
    """The words of the command that the text begins with; the line ends it, outside of quotes."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace, lexer.commenters = " \t", ""
    lexer.wordchars += "$<>,:%@!+{}[]"
    words: list[str] = []
    for word in lexer:
        if word in _ENDS:
            break
        words.append(word)
    return tuple(words[1:])


def written_commands(text: str) -> Iterator[tuple[str, ...]]:
    """Every call of ``tidegate`` in a page's blocks and indented lines, and among its words."""
    for block in (*_BLOCK.findall(text), *_INDENTED.findall(text), *_INLINE.findall(text)):
        plain = _COMMENT.sub("", block.replace("\\\n", " "))
        for found in _COMMAND.finditer(plain):
            yield _words(plain[found.start() :].removeprefix("$("))


_COMMANDS: Final = [
    Written(page.name, words) for page in _pages() for words in written_commands(page.read_text())
]
_STATEMENTS: Final = [
    Written(page, (word,)) for page, words in _COMMANDS for word in words if word.startswith("CREATE ")
]


@pytest.mark.parametrize("written", _COMMANDS, ids=str)
def test_a_command_on_a_page_is_one_that_the_command_line_takes(written: Written) -> None:
    _require_command(written.words)


@pytest.mark.parametrize("written", _STATEMENTS, ids=str)
def test_a_statement_on_a_page_is_a_feed(written: Written) -> None:
    define_feed(written.words[0], FeedId("page"), _NOW_NS)


def test_readme_is_short_and_has_commands() -> None:
    lines = (CHECKOUT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert ("verify", "--feed", "$FEED") in [words for page, words in _COMMANDS if page == "README.md"]


@pytest.mark.parametrize("wrong", ["tidegate feed alter 7", "tidegate status --nothing"])
def test_a_command_that_there_is_not_would_be_noticed(wrong: str) -> None:
    (words,) = written_commands(f"```sh\n{wrong}\n```\n")
    with pytest.raises((AssertionError, click.UsageError)):
        _require_command(words)


def _require_command(words: tuple[str, ...]) -> None:
    """Raises for a subcommand or an option that there is not. A page may name an option without its value."""
    command, rest = _command(words)
    try:
        command.make_parser(click.Context(command)).parse_args([*rest])
    except click.BadOptionUsage:
        if not rest[-1].startswith("--"):
            raise


def _command(words: tuple[str, ...]) -> tuple[click.Command, list[str]]:
    """The subcommand that the words name, and the words behind its name."""
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group) and rest:
        inner = command.get_command(click.Context(command), rest[0])
        assert inner is not None, f"{rest[0]} is no command"
        command = inner
        del rest[0]
    return command, rest
