"""Names the sockets on which windows of later versions say their port. Pure but for `workspace_files`.

A window of such a version serves `<temporary folder>/<prefix><SHA-256 of its identity>.sock`, if that path
fits into a socket address. Its identity is its folder, or its workspace file, as the user opened it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = "lm-tools-bridge.discovery.v1."
PREFIX_VARIABLE: Final = "LM_TOOLS_BRIDGE_DISCOVERY_PIPE_PREFIX"
MAX_ADDRESS: Final = 107
"""Bytes that the path of a socket may have on Linux."""
MAX_LEVELS: Final = 32
MAX_FILES: Final = 16
_DEFAULT: Final = "/tmp"  # noqa: S108  where Node.js looks; its owner is checked
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9._-]")


@dataclass(frozen=True, slots=True)
class DiscoverySocket:
    """Where a window with this identity would answer."""

    path: Path
    identity: str


def sockets_for(root: Path, environ: Mapping[str, str]) -> Iterator[DiscoverySocket]:
    """The sockets of windows that may have the project open, from its folder upwards.

    At each level the `*.code-workspace` files come first, because such a window has more folders.
    """
    for folder in [root, *root.parents][:MAX_LEVELS]:
        for file in workspace_files(folder):
            yield _socket("workspace-file", file, environ)
        yield _socket("folder", folder, environ)


def workspace_files(folder: Path) -> list[Path]:
    """The `*.code-workspace` files of a folder, in order of their names. Blocks."""
    try:
        files = sorted(file for file in folder.iterdir() if file.suffix == ".code-workspace")
    except OSError:
        return []
    return files[:MAX_FILES]


def identity_of(kind: str, path: Path) -> str:
    """The identity of a window: `folder|…` or `workspace-file|…`, as its extension writes it."""
    return f"{kind}|{str(path).replace('/', chr(92)).lower()}"


def _socket(kind: str, path: Path, environ: Mapping[str, str]) -> DiscoverySocket:
    identity = identity_of(kind, path)
    prefix = _UNFIT.sub("_", environ.get(PREFIX_VARIABLE, "").strip() or PREFIX)
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return DiscoverySocket(_temporary_folder(environ) / f"{prefix}{digest}.sock", identity)


def _temporary_folder(environ: Mapping[str, str]) -> Path:
    """The temporary folder as Node.js finds it."""
    folder = next((environ[name] for name in ("TMPDIR", "TMP", "TEMP") if environ.get(name)), _DEFAULT)
    return Path(folder)
