"""Reads secrets from the environment (`LMTB_SECRET_<KEY>`) and from systemd credentials. Read-only.

Credentials are files in `$CREDENTIALS_DIRECTORY` (systemd's LoadCredential=). Both take precedence over
stored secrets.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from lm_tools_bridge.machine import file_calls
from workspace_server.secrets.entry import MAX_VALUE_BYTES, SecretStoreError, check_key, entry_name

VARIABLE: Final = "LMTB_SECRET_"
_UNFIT: Final = re.compile(r"[^A-Z0-9]")


class ProvidedSecrets(Protocol):
    """A read-only source of secrets. Blocks."""

    def get(self, key: str) -> str | None:
        """The value, or None."""

    def names(self) -> set[str]:
        """The keys of all its secrets."""

    def place(self, key: str) -> str:
        """A description of where the user can change this key."""


class EnvironmentSecrets:
    """Variables `LMTB_SECRET_<KEY>`: the key as it is, or in capitals with `_` for other characters.

    An empty variable counts as missing.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def get(self, key: str) -> str | None:
        """See `ProvidedSecrets`."""
        return self._environ.get(self._variable(key)) or None

    def names(self) -> set[str]:
        """The variables' names without the prefix, as far as they are valid keys."""
        names = set()
        for variable, value in self._environ.items():
            key = variable.removeprefix(VARIABLE)
            if value and key != variable and _is_key(key):
                names.add(key)
        return names

    def place(self, key: str) -> str:
        """See `ProvidedSecrets`."""
        return f"the environment variable {self._variable(key)}"

    def _variable(self, key: str) -> str:
        exact = VARIABLE + key
        return exact if self._environ.get(exact) else VARIABLE + _UNFIT.sub("_", key.upper())


class CredentialFiles:
    """Files `openllm.<key>` in the credentials folder; other files are ignored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> str | None:
        """See `ProvidedSecrets`. One line feed at the end of the file is not part of the value.

        Raises:
            SecretStoreError: the file exists but cannot be read.
        """
        path = self._folder / entry_name(key)
        try:
            return _text_of(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SecretStoreError(f"the credential {path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise SecretStoreError(f"the credential {path} {error}") from None

    def names(self) -> set[str]:
        """See `ProvidedSecrets`."""
        try:
            files = [path.name for path in self._folder.iterdir()]
        except OSError:
            return set()
        beginning = entry_name("")
        keys = (name.removeprefix(beginning) for name in files if name.startswith(beginning))
        return {key for key in keys if _is_key(key)}

    def place(self, key: str) -> str:
        """See `ProvidedSecrets`."""
        return f"the credential {self._folder / entry_name(key)}"


def _is_key(text: str) -> bool:
    try:
        check_key(text)
    except ValueError:
        return False
    return True


def _text_of(path: Path) -> str:
    flags = file_calls.READ_FILE
    with os.fdopen(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("is not a regular file")
        content = file.read(MAX_VALUE_BYTES + 2)
    content = content.removesuffix(b"\n")
    if len(content) > MAX_VALUE_BYTES:
        raise ValueError(f"is larger than {MAX_VALUE_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8 text") from None
