"""Reads the arguments of a model's tool call: an object, JSON text, or nothing. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

NOT_AN_OBJECT: Final = "Error: arguments must be an object"
_TOO_DEEP: Final = "Error: arguments are nested too deeply"
_BYTE: Final = re.compile(r"byte (\d+)")


def read_arguments(raw: object) -> tuple[Mapping[str, Any] | None, str | None]:
    """The arguments, or what to tell the model if they are no JSON object.

    Args:
        raw: what the model sent: an object, or JSON text; empty text, null and None mean no arguments.

    Returns:
        The arguments and None, or None and the problem.
    """
    if isinstance(raw, str):
        if not raw.strip():
            return {}, None
        try:
            raw = msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            position = _position(str(raw), str(error))
            return None, f"Error: arguments are not valid JSON at character {position}"
        except UnicodeEncodeError as error:  # half of a surrogate pair
            return None, f"Error: arguments are not valid JSON at character {error.start + 1}"
        except RecursionError:
            return None, _TOO_DEEP
    if raw is None:
        return {}, None
    return (raw, None) if isinstance(raw, Mapping) else (None, NOT_AN_OBJECT)


def _position(text: str, message: str) -> int:
    """The place of the error, counted from 1; behind the last character if the text ends too early."""
    match = _BYTE.search(message)
    if match is None:
        return len(text) + 1
    return len(text.encode()[: int(match[1])].decode(errors="ignore")) + 1
