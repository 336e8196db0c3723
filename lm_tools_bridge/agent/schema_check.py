"""Checks arguments against a tool's JSON Schema, offline and in bounded time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.text.printable import printable

_LONGEST: Final = 300
_MAX_PROBLEMS: Final = 10
_BACKTRACKS: Final = 10_000
_PATTERN_SIZE: Final = 1_000_000


class InvalidSchema(ValueError):
    """A schema that is none; the message says why."""


def problems_with(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Why arguments do not fit a schema, each problem with its place; empty if they do.

    Raises:
        InvalidSchema: the schema itself is not valid, or refers to others.
    """
    import jsonschema_rs

    limits = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_SIZE)
    try:
        validator = jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=limits)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(f"the schema is not valid: {printable(error, width=_LONGEST)}") from None
    try:
        errors = list(validator.iter_errors(dict(arguments)))[:_MAX_PROBLEMS]
    except (ValueError, TypeError, OverflowError) as error:
        return [f"the arguments are not JSON: {printable(error, width=_LONGEST)}"]
    return [_sentence(list(problem.instance_path), problem.message) for problem in errors]


def _sentence(path: list[str | int], message: str) -> str:
    where = "/".join(map(str, path))
    text = printable(message, width=_LONGEST)
    return f"{printable(where, width=_LONGEST)}: {text}" if where else text
