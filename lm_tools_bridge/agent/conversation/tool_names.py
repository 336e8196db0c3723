"""Names of tools: which are internal, what a provider allows, and the table back to the source. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from lm_tools_bridge.agent.messages import AssistantMessage, Message, ToolMessage
from lm_tools_bridge.protocol.names import MANAGER_TOOL_NAMES

_ALLOWED: Final = re.compile(r"\A[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
"""What every provider takes as the name of a function. Only Gemini minds the first character."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64
_INTERNAL: Final = ("openllm_", "lmToolsBridge.", "lmToolsBridge_")
"""Prefixes of names that a model never gets and that are refused whoever asks for them."""


def is_internal(name: str) -> bool:
    """Whether a name belongs to the internal tools or to the manager's own."""
    return name.startswith(_INTERNAL) or name in MANAGER_TOOL_NAMES


def offered_names(tools: Sequence[tuple[str, str]]) -> list[str]:
    """The names for the model, one for each tool and each only once.

    A tool keeps its name if every provider allows it and no earlier tool has it. Otherwise characters are
    replaced, and the name of its source is put in front of a name that is taken.

    Args:
        tools: source and name of each tool.
    """
    used_names: set[str] = set()
    names = [_keep(name, used_names) for _, name in tools]
    for at, (source, name) in enumerate(tools):
        if not names[at]:
            names[at] = _free(
                (allowed_name(name), allowed_name(f"{source}__{name}")), f"{source}\0{name}", used_names
            )
    return names


def _keep(name: str, used_names: set[str]) -> str:
    if not _ALLOWED.match(name) or name in used_names:
        return ""
    used_names.add(name)
    return name


def allowed_name(name: str) -> str:
    """A name with other characters replaced, and one more in front if it could not begin a name."""
    replaced = _OTHER.sub("_", name)
    return replaced if _ALLOWED.match(replaced[:1]) else f"_{replaced}"


def with_allowed_names(messages: Iterable[Message]) -> list[Message]:
    """The messages with names that every provider takes.

    A model may have called what does not exist, under any name, and older sessions may hold any name: a
    provider that refuses one refuses every further request of the conversation.
    """
    return [_with_allowed_names(message) for message in messages]


def _with_allowed_names(message: Message) -> Message:
    if isinstance(message, AssistantMessage) and any(not _ALLOWED.match(call.name) for call in message.calls):
        calls = tuple(replace(call, name=allowed_name(call.name)[:_LONGEST]) for call in message.calls)
        return replace(message, calls=calls)
    if isinstance(message, ToolMessage) and not _ALLOWED.match(message.result.name):
        return ToolMessage(replace(message.result, name=allowed_name(message.result.name)[:_LONGEST]))
    return message


def _free(candidates: Iterable[str], identity: str, used_names: set[str]) -> str:
    """The first wanted name that is short enough and free, else a cut one with a hash of its identity."""
    first = ""
    for name in candidates:
        first = first or name
        if free_name := _keep(name, used_names):
            return free_name
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = f"{first[: _LONGEST - 9]}_{digest}"
    while name in used_names:  # the same tool twice in one source
        name = name[:-1] + format((int(name[-1], 16) + 1) % 16, "x")
    used_names.add(name)
    return name
