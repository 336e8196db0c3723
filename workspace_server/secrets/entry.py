"""Defines stored secrets, the rules for keys and values, and the errors of the secret store. Pure.

In this package a value appears in no `repr`, message or log line; keys may.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

KEY_PATTERN: Final = "^[A-Za-z0-9._-]{1,128}$"
_KEY: Final = re.compile(KEY_PATTERN.removesuffix("$") + r"\Z")
# Larger than any key or certificate chain; keyrings and the sealed file hold values in memory whole.
MAX_VALUE_BYTES: Final = 64 * 1024
Action = Literal["added", "removed", "changed"]


class InvalidSecretError(ValueError):
    """A key or value is invalid. `member` says which of them; the message does not quote it."""

    def __init__(self, member: Literal["key", "value"], message: str) -> None:
        super().__init__(message)
        self.member = member


class SecretStoreError(Exception):
    """A secret could not be read or written; the message says why and what the user can do."""


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """One stored secret.

    Attributes:
        revision: random and new with every change, so that changes are visible without the value.
        value: the secret, or None if the keyring holds it.
        in_keyring: whether the keyring holds a value for this key, current or outdated.
    """

    revision: str
    value: str | None = field(default=None, repr=False)
    in_keyring: bool = False


def entry_name(key: str) -> str:
    """The name of a secret in every backend: `openllm.<key>`."""
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
        raise InvalidSecretError("value", "expected text without lone surrogates") from None
    if size > MAX_VALUE_BYTES:
        raise InvalidSecretError("value", f"expected at most {MAX_VALUE_BYTES} bytes")
