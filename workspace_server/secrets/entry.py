"""The words of the secret store: what a key may be, what a value may be, and how it can fail. No I/O.

A value appears in no `repr`, message or log line of this package; keys do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

KEY_PATTERN: Final = "^[A-Za-z0-9._-]{1,128}$"
_KEY: Final = re.compile(KEY_PATTERN.removesuffix("$") + r"\Z")
MAX_VALUE_BYTES: Final = 64 * 1024
Action = Literal["added", "removed", "changed"]


class InvalidSecretError(ValueError):
    """A key or value that cannot be stored. `member` says which of them; the message does not repeat it."""

    def __init__(self, member: Literal["key", "value"], message: str) -> None:
        super().__init__(message)
        self.member = member


class SecretStoreError(Exception):
    """The store cannot do what was asked; the message says why and what to do, for a person."""


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """One stored secret.

    Attributes:
        revision: random, new with every change, so that changes can be told without looking at values.
        value: the secret, or None where the keyring has it.
        in_keyring: whether the keyring has a value under this key, be it this one or an older one.
    """

    revision: str
    value: str | None = field(default=None, repr=False)
    in_keyring: bool = False


def entry_name(key: str) -> str:
    """The name a secret has in every place: `openllm.<key>`."""
    return f"openllm.{key}"


def check_key(key: str) -> None:
    """Raise InvalidSecretError unless `key` is well-formed."""
    if _KEY.match(key) is None:
        raise InvalidSecretError("key", f"expected a name that matches {KEY_PATTERN}")


def check_value(value: str) -> None:
    """Raise InvalidSecretError unless `value` is text of at most 64 KiB."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidSecretError("value", "expected text without halves of characters") from None
    if size > MAX_VALUE_BYTES:
        raise InvalidSecretError("value", f"expected at most {MAX_VALUE_BYTES} bytes")
