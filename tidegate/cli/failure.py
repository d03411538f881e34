"""Lets a command fail with one sentence on standard error, never with a traceback."""

from __future__ import annotations

from typing import Any

import click
from confluent_kafka import KafkaException

from tidegate.cli.printing import echo_in_red
from tidegate.errors import SubscribeStatementError, TidegateError
from tidegate.redaction import redacted


class Commands(click.Group):
    """A group whose commands turn expected errors into a sentence and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """See ``click.Group``."""
        try:
            return super().invoke(ctx)
        except TidegateError as error:
            hint = error.hint if isinstance(error, SubscribeStatementError) else ""
            sentence = f"{error}\nHint: {hint}." if hint else str(error)
        except KafkaException as error:
            sentence = f"Kafka: {error.args[0].str()}."
        show_failure(sentence)
        return ctx.exit(1)


def show_failure(sentence: str) -> None:
    """Print the error, in red if standard error is a terminal."""
    echo_in_red(redacted(sentence))
