"""Reads typed values from a table of a configuration file, and lists the keys that nobody read. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast, get_args

from lm_tools_bridge.text.near_names import did_you_mean

T = TypeVar("T", bound=str)


class ConfigValueError(Exception):
    """An entry or setting is invalid; the message says why and quotes no value.

    A message about one key begins with it, in quotes; `key` is that key.
    """

    @property
    def key(self) -> str | None:
        """The key that is invalid or missing, if the message is about one."""
        match = re.match(r'"(\w+)"', str(self))
        return match[1] if match else None


class Fields:
    """The values of one table; records which keys were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._taken: set[str] = set()

    @property
    def left(self) -> list[str]:
        """The keys that were not read, in file order."""
        return [key for key in self._values if key not in self._taken]

    @property
    def taken(self) -> frozenset[str]:
        """The keys that were asked for, whether they are there or not."""
        return frozenset(self._taken)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return self._values.get(key) is not None

    def peek(self, key: str) -> Any:
        """The raw value, which stays unread."""
        return self._values.get(key)

    def take(self, key: str) -> Any:
        """The raw value; None if it is missing."""
        self._taken.add(key)
        return self._values.get(key)

    def text(self, key: str, default: str = "") -> str:
        """A string.

        Raises:
            ConfigValueError: the value has another type. The other methods do the same.
        """
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, str) or "\0" in value:
            raise ConfigValueError(f'"{key}" must be a string')
        return value

    def required(self, key: str) -> str:
        """A string that must be present and not blank."""
        value = self.text(key)
        if not value.strip():
            raise ConfigValueError(f'"{key}" is missing')
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """A boolean."""
        value = self.take(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ConfigValueError(f'"{key}" must be true or false')
        return value

    def number(self, key: str, default: float, low: float, high: float) -> float:
        """A number from `low` to `high`."""
        value = self.take(key)
        if value is None:
            return default
        # the comparison also rejects NaN
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigValueError(f'"{key}" must be a number from {low:g} to {high:g}')
        return float(value)

    def choice(self, key: str, allowed: Any, default: T) -> T:
        """One of the strings of a `Literal`."""
        value = self.take(key)
        if value is None:
            return default
        return cast(T, choice(key, value, allowed))

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of strings."""
        value = self.take(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            isinstance(entry, str) and "\0" not in entry for entry in value
        ):
            raise ConfigValueError(f'"{key}" must be an array of strings')
        return tuple(value)

    def pairs(self, key: str) -> Mapping[str, str]:
        """A table of strings; numbers and booleans become their JSON text, null values are left out."""
        value = self.take(key)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(_is_plain(member) for member in value.values()):
            raise ConfigValueError(f'"{key}" must be a table of strings')
        return {str(name): plain_text(member) for name, member in value.items() if member is not None}


def choice(key: str, value: object, allowed: Any) -> Any:
    """The value if it is one of the strings of a `Literal`; raises `ConfigValueError` otherwise."""
    words = get_args(allowed)
    if value not in words or not isinstance(value, str):
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        raise ConfigValueError(f'"{key}" must be one of {", ".join(filter(None, words))}{hint}')
    return cast(Any, value)


def plain_text(value: str | int | float) -> str:
    """A string as it is; a number or a boolean as JSON writes it."""
    return value if isinstance(value, str) else json.dumps(value)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)
