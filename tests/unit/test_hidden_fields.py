"""No ``repr`` of a value shows a secret: its fields that hold one say so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from stack.places import CHECKOUT

#: Where product code lives.
_PLACES: Final = ("tidegate", "app", "agents", "tables", "schemas", "pipeline", "sim", "stack", "supply")
#: Names of fields that hold secrets.
_SECRET: Final = re.compile(r"(?:^|_)(?:secret|password|passphrase|token|credential|private_key|client_key)$")
#: Keys of a SCRAM verifier are secrets too: with them a server can be imitated, or a password guessed.
_KEYS: Final = frozenset({"stored_key", "server_key"})
#: Decorators and bases that make a ``repr`` of the fields.
_MAKES_REPR: Final = re.compile(r"(?:dataclasses\.)?dataclass\b|NamedTuple$|BaseModel$")
#: Types whose own ``repr`` hides it, and resume tokens, which are none.
_HIDE_IT: Final = ("SecretStr", "ResumeToken", "JointToken")
#: Resume tokens as text. They say where a subscription stands.
_RESUME_TOKENS: Final = frozenset(
    {
        "tidegate/client/subscribe/state/file_checkpoints.py: HeldFile.token",
        "tidegate/client/subscribe/state/group_checkpoints.py: CheckpointEpoch.token",
        "tidegate/client/subscribe/state/group_metadata.py: StoredCheckpoint.token",
        "tidegate/client/subscribe/state/sql_checkpoints.py: HeldRow.token",
        "tidegate/serve/web/subscription_answers.py: SubscriptionRequest.token",
    }
)


def _values() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class whose ``repr`` is made from its fields, by its module."""
    for file in sorted(file for place in _PLACES for file in (CHECKOUT / place).rglob("*.py")):
        path = file.relative_to(CHECKOUT).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                made_by = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
                if any(map(_MAKES_REPR.match, made_by)):
                    yield path, node


def _shown_secrets() -> Iterator[str]:
    for path, node in _values():
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                name, kind = field.target.id, ast.unparse(field.annotation)
                holds = _SECRET.search(name) or name in _KEYS
                hidden = field.value is not None and "repr=False" in ast.unparse(field.value)
                if holds and not hidden and not any(each in kind for each in _HIDE_IT):
                    yield f"{path}: {node.name}.{name}"


def test_fields_with_secrets_are_left_out_of_repr() -> None:
    assert set(_shown_secrets()) == _RESUME_TOKENS
