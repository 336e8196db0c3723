"""Reads whole files that others wrote, within a limit; a pipe in the place of a file stops nobody. Blocks."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.machine import file_calls

MAX_SOURCE: Final = 16 * 1024 * 1024
"""Bytes of a source: language servers take minutes for larger files, or give up."""
MAX_SETTINGS: Final = 1024 * 1024
"""Bytes of a file with settings, as `package.json`: those that people write have kilobytes."""


@contextmanager
def open_file(path: Path) -> Iterator[int]:
    """The descriptor of an open regular file; links are followed.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, file_calls.READ_FILE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


def content_of(descriptor: int, path: Path, limit: int) -> bytes:
    """The whole content of an open file.

    Raises:
        OSError: it cannot be read, or has more than `limit` bytes.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts: list[bytes] = []
    size = 0
    while part := os.read(descriptor, limit + 1 - size):
        parts.append(part)
        size += len(part)
        if size > limit:
            most = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
            raise OSError(errno.EFBIG, f"larger than {most}", str(path))
    return b"".join(parts)


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes.

    Raises:
        OSError: it cannot be read, is larger, or is not a regular file.
    """
    with open_file(path) as descriptor:
        return content_of(descriptor, path, limit)


def read_text(path: Path) -> str:
    """The text of a file with settings; empty if it cannot be read. Bytes that are not UTF-8 become `�`."""
    try:
        return read_bytes(path, MAX_SETTINGS).decode("utf-8-sig", "replace")
    except (OSError, ValueError):  # a name from a file may hold NUL
        return ""


def read_toml(path: Path) -> Mapping[str, Any]:
    """The tables of a file; none if it cannot be read."""
    import tomllib  # noqa: PLC0415  the manager reads none

    try:
        return tomllib.loads(read_text(path))
    except (ValueError, RecursionError):
        return {}


def read_json(path: Path) -> Mapping[str, Any]:
    """The object in a file; an empty one if it cannot be read or is no object."""
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
