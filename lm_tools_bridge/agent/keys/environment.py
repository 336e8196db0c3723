"""Reads keys from environment variables, and from the `.env` file of a trusted workspace. Read-only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from lm_tools_bridge.agent.keys.key import Key, KeySourceFailed, KeyWish, StoreReadOnly
from lm_tools_bridge.machine import private_files, project_file

_LARGEST: Final = 256 * 1024
_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_QUOTED: Final = re.compile(r"(['\"])(.*?)\1(?:\s+#.*)?")
_COMMENT: Final = re.compile(r"(?:^|\s+)#.*")


class EnvironmentKeys:
    """Keys in environment variables. An empty variable counts as missing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    async def find(self, wish: KeyWish) -> Key | None:
        """See `KeySource`."""
        for name in wish.variables:
            if value := self._environ.get(name, "").strip():
                return Key(value, "environment", name)
        return None

    async def store(self, name: str, value: str) -> None:
        """See `KeySource`."""
        raise StoreReadOnly


class DotEnvKeys:
    """Keys in the `.env` of a workspace; none unless the workspace is trusted."""

    def __init__(self, file: Path, *, trusted: bool) -> None:
        self._file = file
        self._trusted = trusted

    async def find(self, wish: KeyWish) -> Key | None:
        """See `KeySource`."""
        if not self._trusted:
            return None
        try:
            content = project_file.read(self._file, _LARGEST)
        except (private_files.UnsafePathError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.reason
            raise KeySourceFailed(f"{self._file} cannot be read: {reason}") from None
        values = variables((content or b"").decode(errors="replace"))
        for name in wish.variables:
            if value := values.get(name):
                return Key(value, "dotenv", f"{name} in {self._file}")
        return None

    async def store(self, name: str, value: str) -> None:
        """See `KeySource`."""
        raise StoreReadOnly


def variables(text: str) -> dict[str, str]:
    """The variables of a `.env` file: `NAME=value`, with or without `export` and quotes, never expanded."""
    values = {}
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            name, value = match.groups()
            quoted = _QUOTED.fullmatch(value)
            values[name] = quoted[2] if quoted else _COMMENT.sub("", value)
    return values
