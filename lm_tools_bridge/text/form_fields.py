"""Reads the fields of an MCP form, and the values that a person types for them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.text.printable import printable

_TRUE: Final = frozenset({"y", "yes", "true", "1"})
_FALSE: Final = frozenset({"n", "no", "false", "0"})


class InvalidLine(ValueError):
    """A line that is no value of its field; the message says what is."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form.

    Attributes:
        name: the property in the schema.
        kind: `string`, `number`, `integer`, `boolean` or `array`.
        title: what the user is shown.
        options: the permitted values with their titles; empty if all values are.
    """

    name: str
    kind: str
    title: str
    description: str = ""
    required: bool = False
    default: Any = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def prompt(self) -> str:
        """The line in front of the user's answer."""
        about = f" ({self.description})" if self.description else ""
        choice = "/".join(title for _, title in self.options) or ("y/n" if self.kind == "boolean" else "")
        parts = [
            f" [{choice}]" if choice else "",
            f" default {_text(self.default)}" if self._has_default else "",
        ]
        optional = "" if self.required or self._has_default else ", optional"
        return printable(f"{self.title}{about}{''.join(parts)}{optional}: ")

    @property
    def _has_default(self) -> bool:
        return self.default is not None

    def value(self, line: str) -> Any:
        """The value of a line; None for an optional field that is left empty.

        Raises:
            InvalidLine: the line is no value of this field.
        """
        text = line.strip()
        if not text:
            if self.required and not self._has_default and self.kind != "array":
                raise InvalidLine("a value is required")
            return [] if self.required and not self._has_default else self.default
        if self.kind == "array":
            return [self._option(part.strip()) for part in text.split(",") if part.strip()]
        if self.options:
            return self._option(text)
        return _parsed(self.kind, text)

    def _option(self, text: str) -> str:
        for value, title in self.options:
            if text.casefold() in (value.casefold(), title.casefold()):
                return value
        if self.options:
            raise InvalidLine(f"one of {', '.join(title for _, title in self.options)} is expected")
        return text


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """The fields of a form, in the order of its schema."""
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    properties = schema.get("properties")
    members = properties if isinstance(properties, Mapping) else {}
    return [
        _field(name, member, name in needed)
        for name, member in members.items()
        if isinstance(member, Mapping)
    ]


def _field(name: str, schema: Mapping[str, Any], required: bool) -> Field:
    items = schema.get("items")
    choices = schema if not isinstance(items, Mapping) else items
    return Field(
        name,
        str(schema.get("type", "string")),
        str(schema.get("title") or name),
        str(schema.get("description") or ""),
        required,
        schema.get("default"),
        tuple(_options(choices)),
    )


def _options(schema: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The permitted values with their titles: `enum` with `enumNames`, `oneOf` or `anyOf`."""
    titled = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(titled, list):
        parts = [part for part in titled if isinstance(part, Mapping) and "const" in part]
        return [(str(part["const"]), str(part.get("title", part["const"]))) for part in parts]
    values, enum_names = schema.get("enum"), schema.get("enumNames")
    if not isinstance(values, list):
        return []
    titles = enum_names if isinstance(enum_names, list) and len(enum_names) == len(values) else values
    return [(str(value), str(title)) for value, title in zip(values, titles, strict=True)]


def _parsed(kind: str, text: str) -> Any:
    try:
        match kind:
            case "boolean":
                if text.lower() in _TRUE | _FALSE:
                    return text.lower() in _TRUE
                raise InvalidLine("y or n is expected")
            case "integer":
                return int(text)
            case "number":
                number = float(text)
                if math.isfinite(number):
                    return number
                raise InvalidLine("a number is expected")
    except InvalidLine:
        raise
    except ValueError:
        raise InvalidLine(f"{'a whole number' if kind == 'integer' else 'a number'} is expected") from None
    return text


def _text(value: Any) -> str:
    """A default as the user would type it."""
    if isinstance(value, bool):
        return "y" if value else "n"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
