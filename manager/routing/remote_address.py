"""Recognises addresses of folders on other hosts, such as `ssh://ada@build/srv/app`. Pure.

The core knows their shape alone: an address decides where a call goes, and stands where a path stands.
`lm_tools_bridge/remote_hosts/address.py` parses them and knows what each part means.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple, get_args

Scheme = Literal["ssh", "docker", "podman", "wsl", "kubectl"]
SCHEMES: Final[tuple[Scheme, ...]] = get_args(Scheme)

_SHAPE: Final = re.compile(r"\s*(?!file:)[A-Za-z0-9][A-Za-z0-9_.-]+:/", re.IGNORECASE)
"""Two characters at least before the colon, so that no drive of Windows is meant."""
_ROOT: Final = re.compile(
    r"(?P<host>(?:ssh|docker|podman|wsl)://[^/]+|kubectl://[^/]+/[^/]+)(?P<path>/.*)", re.DOTALL
)


class RemoteRoot(NamedTuple):
    """The root of a project on another host: the address of the host, and the folder's path there."""

    host: str
    path: str


def may_be_remote(text: str) -> bool:
    """Whether a folder as a client wrote it may be on another host: `SCHEME://…`, or `NAME:/…`."""
    return _SHAPE.match(text) is not None


def is_remote_address(text: str) -> bool:
    """Whether a text is an address on another host, and not a URI of an editor, such as `vscode-remote://`."""
    scheme, separator, _ = text.strip().partition("://")
    return may_be_remote(text) and (not separator or scheme.lower() in SCHEMES)


def split_root(root: str) -> RemoteRoot | None:
    """Split the root of a workspace as this program writes it; None for a folder of this machine."""
    parts = _ROOT.fullmatch(root)
    return None if parts is None else RemoteRoot(parts["host"], parts["path"])
