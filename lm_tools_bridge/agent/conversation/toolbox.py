"""Joins all sources of tools under the names that a provider allows, also sources that load late."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, runtime_checkable

from lm_tools_bridge.agent.messages import AssistantMessage, Call, Message, Tool, ToolMessage
from lm_tools_bridge.agent.tool_source import (
    Outcome,
    SourceState,
    ToolSource,
    limits_calls,
    on_change_of,
    read_arguments,
    refusal_of,
)
from lm_tools_bridge.protocol.names import MANAGER_TOOL_NAMES
from lm_tools_bridge.text.near_names import did_you_mean


class LateSource:
    """Stands for a source until it is needed, and passes everything on to it from then on."""

    def __init__(self, name: str, make: Callable[[], ToolSource]) -> None:
        self.name = name
        self._make = make
        self._source: ToolSource | None = None

    @property
    def limits_calls(self) -> bool:
        """See `LimitsCalls`: whether the source that it stands for does."""
        return limits_calls(self._made())

    async def list_tools(self) -> Sequence[Tool]:
        """See `ToolSource`."""
        return await self._made().list_tools()

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        """See `ToolSource`."""
        return await self._made().call(name, arguments, on_progress)

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
        """See `RefusesCalls`."""
        return refusal_of(self._made(), name, arguments)

    def on_change(self, handler: Callable[[], None]) -> Callable[[], None]:
        """See `TellsChanges`."""
        return on_change_of(self._made(), handler)

    def state(self) -> SourceState:
        """See `ToolSource`."""
        if self._source is None:
            return SourceState(self.name, "starting", "not listed yet")
        return self._source.state()

    async def close(self) -> None:
        """See `ToolSource`."""
        if self._source is not None:
            await self._source.close()

    def _made(self) -> ToolSource:
        if self._source is None:
            self._source = self._make()
        return self._source


class LateDiscoverySource(LateSource):
    """A late source that can offer a search in the place of its tools."""

    async def set_discovery(self, on: bool) -> None:
        """Offer `tool_search` and `execute_tool` instead of all tools, or all tools again."""
        source: Any = self._made()
        await source.set_discovery(on)


_ALLOWED: Final = re.compile(r"\A[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")
"""What every provider takes as the name of a function. Only Gemini minds the first character."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64  # as in `_ALLOWED`
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


LIST_S: Final = 90.0
"""Longer than a source takes that starts what it needs: one that hangs has no tools in this round."""
_NEAR: Final = 3  # names that a model can choose from; more are no hint
_SEARCH: Final = "tool_search"
_EXECUTE: Final = "execute_tool"


@runtime_checkable
class DiscoverySource(Protocol):
    """A source that can offer a search in the place of its tools."""

    async def set_discovery(self, on: bool) -> None:
        """Offer `tool_search` and `execute_tool` instead of all tools, or all tools again."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool with the name that the model knows, and the source that runs it."""

    name: str
    tool: Tool
    source: ToolSource


@dataclass(slots=True)
class Use:
    """How often a tool was called in this session, and when its last call began and how it ended."""

    calls: int = 0
    failed: bool = False
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """A call that can run: the tool behind it, and the call under the tool's own name at its source."""

    call: Call
    tool: Tool
    source: ToolSource


@dataclass(frozen=True, slots=True)
class NotFound:
    """A call that cannot run, and what to tell the model."""

    text: str


class Toolbox:
    """All sources. `offers` has every tool of the sources that are on, disabled tools too.

    Attributes:
        disabled: names of tools that are switched off.
        uses: name -> use in this session.
        discovery: whether sources offer a search in the place of their tools.
    """

    def __init__(self, sources: Sequence[ToolSource], now: Callable[[], float] = time.time) -> None:
        self.sources = tuple(sources)
        self._now = now
        self.offers: tuple[Offer, ...] = ()
        self.disabled: set[str] = set()
        self.uses: dict[str, Use] = {}
        self.discovery = False
        self._off: set[str] = set()
        self._known: dict[str, Offer] = {}

    async def refresh(self) -> list[Tool]:
        """List the tools of all sources again; returns what the model is offered, under its names."""
        active = [source for source in self.sources if source.name not in self._off]
        lists = await asyncio.gather(*map(_list_tools, active))
        pairs = [
            (source, tool)
            for source, tools in zip(active, lists, strict=True)
            for tool in tools
            if tool.name and not is_internal(tool.name)
        ]
        names = offered_names([(source.name, tool.name) for source, tool in pairs])
        self.offers = tuple(
            Offer(name, tool, source) for name, (source, tool) in zip(names, pairs, strict=True)
        )
        now = {offer.name: offer for offer in self.offers}
        self._known = {**self._known, **now} if self.discovery else now
        return self.tools()

    def tools(self) -> list[Tool]:
        """What the model is offered, as last listed."""
        return [
            replace(offer.tool, name=offer.name) for offer in self.offers if offer.name not in self.disabled
        ]

    def find(self, call: Call) -> Found | NotFound:
        """The tool that a call with readable arguments leads to; for `execute_tool` the one that it names."""
        offer = self._known.get(call.name)
        if call.name in self.disabled or (offer is not None and offer.source.name in self._off):
            return NotFound(f"Tool {call.name} is disabled")
        if offer is None or is_internal(call.name):
            return self._not_found(call.name)
        if offer.name == _EXECUTE and isinstance(offer.source, DiscoverySource):
            return self._find_executed(call, offer.source)
        return Found(replace(call, name=offer.tool.name), offer.tool, offer.source)

    async def run(
        self, match: Found, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        """Run a call with the arguments that were decided on. Cancelling the task cancels the call."""
        use = self.uses.setdefault(match.tool.name, Use())
        use.calls += 1
        use.failed = True
        use.began = self._now()
        outcome = await match.source.call(match.tool.name, arguments, on_progress)
        use.failed = outcome.is_error
        return outcome

    def enable(self, name: str, on: bool) -> None:
        """Switch a tool on or off; it holds from the next round, and for calls at once."""
        if on:
            self.disabled.discard(name)
        else:
            self.disabled.add(name)

    def enable_source(self, name: str, on: bool) -> None:
        """Switch a source on or off, from the next `refresh`."""
        if on:
            self._off.discard(name)
        else:
            self._off.add(name)

    def is_source_on(self, name: str) -> bool:
        """Whether a source is switched on."""
        return name not in self._off

    def states(self) -> list[SourceState]:
        """How each source is."""
        return [source.state() for source in self.sources]

    async def set_discovery(self, on: bool) -> bool:
        """Let sources offer a search in the place of their tools; False if none can."""
        able = [source for source in self.sources if isinstance(source, DiscoverySource)]
        for source in able:
            await source.set_discovery(on)
        self.discovery = on and bool(able)
        return bool(able)

    async def close(self) -> None:
        """Close all sources."""
        await asyncio.gather(*(source.close() for source in self.sources), return_exceptions=True)

    def _find_executed(self, call: Call, source: ToolSource) -> Found | NotFound:
        outer_arguments = call.arguments or {}
        name = str(outer_arguments.get("name", ""))
        arguments, problem = read_arguments(outer_arguments.get("arguments"))
        if arguments is None:
            return NotFound(problem or "")
        if name in {_EXECUTE, _SEARCH}:
            return self._not_found(name)
        inner = replace(call, name=name, arguments=arguments)
        for offer in self._known.values():
            if offer.source is source and offer.tool.name == name:
                return self.find(replace(inner, name=offer.name))
        if name in self._known or name in self.disabled or is_internal(name):
            return self.find(inner)
        return Found(inner, Tool(name, "", {"type": "object"}), source)  # its server knows whether it exists

    def _not_found(self, name: str) -> NotFound:
        text = f"Tool not found or disabled: {name}"
        if is_internal(name):
            return NotFound(text)
        callable_names = (offer.name for offer in self.offers if offer.name not in self.disabled)
        return NotFound(text + did_you_mean(name, callable_names, count=_NEAR))


async def _list_tools(source: ToolSource) -> Sequence[Tool]:
    try:
        async with asyncio.timeout(LIST_S):
            return await source.list_tools()
    except Exception:  # noqa: BLE001  a source that fails has no tools, and the others go on
        return ()
