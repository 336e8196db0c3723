"""The MCP skills extension (SEP-2640): names, the declaration of a server, and the URIs of our own skills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

EXTENSION: Final = "io.modelcontextprotocol/skills"
CAPABILITY: Final[Mapping[str, Any]] = {"directoryRead": True}
"""What a workspace server, and the manager for it, declares as the extension's settings."""
LIST: Final = "skills/list"
GET: Final = "skills/get"
READ_DIRECTORY: Final = "resources/directory/read"
SCHEME: Final = "skill://"
PROJECT: Final = "skill://project/"
USER: Final = "skill://user/"
"""URIs of the skills of a project and of its user; reserved: other MCP servers cannot use them."""


def is_own(uri: str) -> bool:
    """Whether only a workspace server itself can have this URI."""
    return uri.startswith((PROJECT, USER)) or uri in (PROJECT[:-1], USER[:-1])


def is_declared(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server with these decoded capabilities offers skills."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, Mapping) and isinstance(extensions.get(EXTENSION), Mapping)
