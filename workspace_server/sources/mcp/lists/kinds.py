"""Defines the kinds of lists an MCP server may have: tools, prompts, resources, templates and skills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol import skills_extension as skills


@dataclass(frozen=True, slots=True)
class ListKind:
    """One list.

    Attributes:
        word: an entry of it, in words.
        method: the request for it.
        member: the list's name in the answer.
        key: the member of an entry that it is asked for by.
        capability: what a server that has the list declares; its changes are announced under this name.
    """

    word: str
    method: str
    member: str
    key: str
    capability: str

    @property
    def code(self) -> str:
        """The beginning of the codes of issues about it."""
        return self.word.upper()

    def is_declared(self, capabilities: Mapping[str, Any]) -> bool:
        """Whether a server with these capabilities has the list."""
        if self.method == skills.LIST:
            return skills.is_declared(capabilities)
        return self.capability in capabilities


TOOLS: Final = ListKind("tool", names.TOOLS_LIST, "tools", "name", "tools")
PROMPTS: Final = ListKind("prompt", names.PROMPTS_LIST, "prompts", "name", "prompts")
RESOURCES: Final = ListKind("resource", names.RESOURCES_LIST, "resources", "uri", "resources")
TEMPLATES: Final = ListKind("template", names.TEMPLATES_LIST, "resourceTemplates", "uriTemplate", "resources")
SKILLS: Final = ListKind("skill", skills.LIST, "skills", "uri", "resources")
OTHER_KINDS: Final = (PROMPTS, RESOURCES, TEMPLATES, SKILLS)
"""All but tools: asked for only where the server declares them. Tools are asked for in any case, since there
are servers that have them and do not say so."""


def changed(capability: str) -> tuple[ListKind, ...]:
    """The lists that may differ when a server says that `tools`, `prompts` or `resources` changed."""
    return tuple(kind for kind in (TOOLS, *OTHER_KINDS) if kind.capability == capability)
