"""Says what is wrong with a setting, in words that the person who set it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

#: Settings whose names end so are secrets. They are no options of a command, and no sentence repeats them.
SECRET_NAMES: Final = ("_password", "_token")
#: The demand for each error type of pydantic. Words in braces stand for values of the error's context.
_DEMANDS: Final = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must be made of letters, digits, dots, hyphens and underscores, 100 at most",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
}


def fault_text(fault: Mapping[str, Any]) -> str:
    """Make a clause of one fault of pydantic's ``errors()``.

    It names the setting, and its value unless that is a secret. Example: "commit_threads is '0', but must be
    at least 1".
    """
    name, kind, context = ".".join(map(str, fault["loc"])), fault["type"], fault.get("ctx", {})
    if kind == "value_error":  # one of our own rules over several settings: its error is a sentence
        return str(context["error"])
    if kind == "extra_forbidden":
        return f"there is no setting {name}"
    value = "" if name.endswith(SECRET_NAMES) else f" is {str(fault['input'])!r}, but"
    demand = _DEMANDS[kind].format(**context) if kind in _DEMANDS else f"cannot be used: {fault['msg']}"
    return f"{name}{value} {demand}"
