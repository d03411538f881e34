"""Queries are read without holding up others."""

from __future__ import annotations

import pytest

from tests.unit.serve.postgres.served import run, turns
from tidegate.errors import RequestRefused
from tidegate.serve.postgres.command_reader import CommandReader
from tidegate.serve.postgres.commands import BeginBlock


def test_a_long_query_is_read_while_others_have_their_turns() -> None:
    async def test() -> None:
        reader = CommandReader()
        text = "BEGIN " + "," * 60_000
        async with turns() as counted:
            assert await reader.query(text) == [BeginBlock()]
            assert await reader.prepared(text) == BeginBlock()
            assert counted[0] > 0
        reader.close()

    run(test)


def test_a_query_is_read_to_the_first_command_that_is_refused() -> None:
    async def test() -> None:
        reader = CommandReader()
        begin, refused = await reader.query("BEGIN; nonsense; BEGIN")
        assert begin == BeginBlock()
        assert isinstance(refused, RequestRefused)
        assert await reader.query(" ; ") == []
        assert await reader.prepared("") is None
        with pytest.raises(RequestRefused, match="multiple commands"):
            await reader.prepared("BEGIN; BEGIN")
        reader.close()

    run(test)
