"""Converts the parameters of a `tool.toml` to one JSON Schema per argument. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.text.near_names import did_you_mean

TYPES: Final = {
    "string": "string",
    "number": "number",
    "float": "number",
    "integer": "integer",
    "int": "integer",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "object": "object",
}
"""Allowed values of `type` and the JSON Schema types they stand for."""
LISTED: Final = "string, number, integer (int), float, boolean (bool), array, object, array:T"
_FITS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # the argument names that model providers accept
KEYS: Final = frozenset({"type", "description", "required", "default", "enum", "items", "name"})
_MAX_DEPTH: Final = 32


class ManifestError(Exception):
    """The manifest is invalid; the text tells its author why."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument: its name, its JSON Schema, and whether it is required."""

    name: str
    schema: Mapping[str, Any]
    required: bool = False


def parameters(value: object, unknown: list[str]) -> tuple[Parameter, ...]:
    """Convert the `parameters` of a manifest, in the order of the file; unknown keys are added to `unknown`.

    Raises:
        ManifestError: a parameter is invalid.
    """
    parameters: dict[str, Parameter] = {}
    for name, table in _tables(value):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ManifestError(f"parameter name {quoted(name)} must be 1 to 64 of A-Z a-z 0-9 _ . -")
        if name in parameters:
            raise ManifestError(f"parameter {name} is defined twice")
        if not isinstance(table, dict):
            raise ManifestError(f"parameters.{name} must be a table")
        unknown += [f"parameters.{name}.{key}" for key in table if key not in KEYS]
        try:
            parameters[name] = _parameter(name, table)
        except ManifestError as bad:
            raise ManifestError(f"parameters.{name}: {bad}") from None
    return tuple(parameters.values())


def _tables(value: object) -> Iterator[tuple[object, object]]:
    """Read both forms, `[parameters.NAME]` and `[[parameters]]`, as pairs of name and table."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        for table in value:
            if not isinstance(table, dict) or "name" not in table:
                raise ManifestError("each of [[parameters]] needs a name")
            if any(isinstance(item, dict) for key, item in table.items() if key not in KEYS):
                # TOML adds [parameters.NAME] to the last table of [[parameters]]
                raise ManifestError("[parameters.NAME] and [[parameters]] cannot be used in one file")
            yield table["name"], table
    else:
        raise ManifestError("parameters must be tables: [parameters.NAME] or [[parameters]]")


def _parameter(name: str, table: Mapping[str, Any]) -> Parameter:
    schema = _type_schema(table.get("type"))
    if (description := table.get("description")) is not None:
        if not isinstance(description, str):
            raise ManifestError("description must be a string")
        if text := one_line(description):
            schema["description"] = text
    if "items" in table:
        if schema["type"] != "array" or "items" in schema:
            raise ManifestError("items is for the type array only, and array:T has them already")
        schema["items"] = _items(table["items"])
    if "enum" in table:
        values = table["enum"]
        if not isinstance(values, list) or not values:
            raise ManifestError("enum must be an array with at least one value")
        schema["enum"] = [_checked(schema, value, "enum") for value in values]
    if "default" in table:
        schema["default"] = _checked(schema, table["default"], "default")
        if schema["default"] not in schema.get("enum", [schema["default"]]):
            raise ManifestError("default is not one of enum")
    required = table.get("required", False)
    if not isinstance(required, bool):
        raise ManifestError("required must be true or false")
    return Parameter(name, schema, required)


def _type_schema(word: object, depth: int = 0) -> dict[str, Any]:
    """The JSON Schema of a value of `type`, such as `int` or `array:string`."""
    if isinstance(word, str) and word in TYPES:
        schema: dict[str, Any] = {"type": TYPES[word]}
        if word == "object":
            schema["additionalProperties"] = True
        return schema
    if isinstance(word, str) and word.startswith("array:") and depth < _MAX_DEPTH:
        return {"type": "array", "items": _type_schema(word.removeprefix("array:"), depth + 1)}
    type_text = "is missing; it" if word is None else quoted(word)
    hint = did_you_mean(word, TYPES) if isinstance(word, str) else ""
    raise ManifestError(f"type {type_text} must be one of {LISTED}{hint}")


def _items(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        return _type_schema(value)
    if not isinstance(value, dict):
        raise ManifestError("items must be a JSON Schema or a type")
    plain: dict[str, Any] = json_value(value, "items")
    return plain


def _checked(schema: Mapping[str, Any], value: object, key: str) -> Any:
    kind = schema["type"]
    fits = isinstance(value, _FITS[kind]) and (kind == "boolean") is isinstance(value, bool)
    if not fits:
        raise ManifestError(f"{key} {quoted(value)} is not of type {kind}")
    return json_value(value, key)


def json_value(value: Any, key: str, depth: int = 0) -> Any:
    """Convert a TOML value to JSON.

    Raises:
        ManifestError: JSON cannot represent the value (a date, infinity), or it is nested too deep.
    """
    if depth > _MAX_DEPTH:
        raise ManifestError(f"{key} is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {name: json_value(item, key, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [json_value(item, key, depth + 1) for item in value]
    if isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise ManifestError(f"{key}: JSON cannot represent {quoted(value)}; write it as a string")


def one_line(text: str) -> str:
    """`text` with each run of white space replaced by one space."""
    return " ".join(text.split())


def quoted(value: object) -> str:
    """A value from the file, shortened and in quotes for a message; for other types than text their name."""
    text = one_line(str(value)) if isinstance(value, str) else type(value).__name__
    text = "".join(letter for letter in text if letter.isprintable())
    return f'"{text[:37]}…"' if len(text) > 40 else f'"{text}"' if isinstance(value, str) else text
