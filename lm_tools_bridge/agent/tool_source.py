"""Defines where tools come from, what arguments their calls take, and what results say to the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from lm_tools_bridge.agent.messages import Tool
from lm_tools_bridge.text.printable import printable

_LONGEST: Final = 300  # characters of a message that quotes what a model or a server wrote
_MAX_PROBLEMS: Final = 10  # a model corrects these first, and is told the others then
# patterns come from servers: one that backtracks without end, or grows large, is given up instead of run
_BACKTRACKS: Final = 10_000
_PATTERN_SIZE: Final = 1_000_000


class InvalidSchema(ValueError):
    """A schema that is none; the message says why."""


def problems_with(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    """Why arguments do not fit a schema, each problem with its place; empty if they do.

    Raises:
        InvalidSchema: the schema itself is not valid, or refers to others.
    """
    import jsonschema_rs

    limits = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_SIZE)
    try:
        validator = jsonschema_rs.validator_for(dict(schema), offline=True, pattern_options=limits)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise InvalidSchema(f"the schema is not valid: {printable(error, width=_LONGEST)}") from None
    try:
        errors = list(validator.iter_errors(dict(arguments)))[:_MAX_PROBLEMS]
    except (ValueError, TypeError, OverflowError) as error:
        return [f"the arguments are not JSON: {printable(error, width=_LONGEST)}"]
    return [_sentence(list(problem.instance_path), problem.message) for problem in errors]


def _sentence(path: list[str | int], message: str) -> str:
    where = "/".join(map(str, path))
    text = printable(message, width=_LONGEST)
    return f"{printable(where, width=_LONGEST)}: {text}" if where else text


NOT_AN_OBJECT: Final = "Error: arguments must be an object"
_TOO_DEEP: Final = "Error: arguments are nested too deeply"
_BYTE: Final = re.compile(r"byte (\d+)")


def read_arguments(raw: object) -> tuple[Mapping[str, Any] | None, str | None]:
    """The arguments, or what to tell the model if they are no JSON object.

    Args:
        raw: what the model sent: an object, or JSON text; empty text, null and None mean no arguments.

    Returns:
        The arguments and None, or None and the problem.
    """
    if isinstance(raw, str):
        if not raw.strip():
            return {}, None
        try:
            raw = msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            position = _position(str(raw), str(error))
            return None, f"Error: arguments are not valid JSON at character {position}"
        except UnicodeEncodeError as error:  # half of a surrogate pair
            return None, f"Error: arguments are not valid JSON at character {error.start + 1}"
        except RecursionError:
            return None, _TOO_DEEP
    if raw is None:
        return {}, None
    return (raw, None) if isinstance(raw, Mapping) else (None, NOT_AN_OBJECT)


def _position(text: str, message: str) -> int:
    """The place of the error, counted from 1; behind the last character if the text ends too early."""
    match = _BYTE.search(message)
    if match is None:
        return len(text) + 1
    return len(text.encode()[: int(match[1])].decode(errors="ignore")) + 1


NO_SOURCES: Final = "Error: No MCP client configured"
"""The result of a call where there is nothing that could run it."""


def result_text(content: Sequence[Mapping[str, Any]], structured: Any = None) -> str:
    """The text blocks, joined by newlines; other blocks are named.

    Args:
        content: blocks of MCP.
        structured: the structured result; it is the text where there are no blocks.
    """
    if not content and structured is not None:
        return msgspec.json.encode(structured).decode()
    return "\n".join(map(_block, content))


def cut_text(text: str, most: int) -> str:
    """The text with at most `most` bytes of UTF-8, and a note of how much was cut."""
    if len(text) <= most // 4:
        return text
    whole = text.encode("utf-8", "surrogatepass")
    if len(whole) <= most:
        return text
    start = whole[:most].decode("utf-8", "ignore")
    return f"{start}\n[truncated: {len(text) - len(start)} characters]"


def _block(block: Mapping[str, Any]) -> str:
    kind = str(block.get("type", "block"))
    if kind == "text":
        return str(block.get("text", ""))
    if kind == "resource" and isinstance(resource := block.get("resource"), Mapping):
        if "text" in resource:
            return str(resource["text"])
        return _block_note(kind, resource, resource.get("blob"))
    if kind == "resource_link":
        return f"[resource_link {block.get('uri', '')}]"
    return _block_note(kind, block, block.get("data"))


def _block_note(kind: str, block: Mapping[str, Any], encoded: object) -> str:
    """A block that is not text, such as `[image image/png, 12 KB]`."""
    name = f"{kind} {block.get('mimeType', '')}".strip()
    if not isinstance(encoded, str):
        return f"[{name}]"
    size = len(encoded.rstrip("=")) * 3 // 4
    return f"[{name}, {_size(size)}]"


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} bytes"
    return f"{round(size / 1024)} KB" if size < 1024 * 1024 else f"{size / 1024 / 1024:.1f} MB"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool gave: content blocks of MCP, and the code of the refusal or error, if it was one.

    Protocol errors, refusals, time-outs and lost connections are outcomes with `is_error`, whose text ends in
    the next step where there is one. `delivered` is False if the tool certainly did not run.
    """

    content: Sequence[Mapping[str, Any]]
    is_error: bool = False
    code: int | None = None
    structured: Any = None
    delivered: bool = True


def text_outcome(
    text: str, *, is_error: bool = False, code: int | None = None, delivered: bool = True
) -> Outcome:
    """An outcome of one block of text."""
    return Outcome(({"type": "text", "text": text},), is_error, code, delivered=delivered)


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a source is: `ready`, `starting` or `unavailable`, and for a person why and what to do."""

    name: str
    state: str
    detail: str = ""


class ToolSource(Protocol):
    """A set of tools. Only one task at a time uses it, but `call` may be cancelled at any moment."""

    name: str

    async def list_tools(self) -> Sequence[Tool]:
        """The tools as they are now, quickly where nothing changed; empty where the source is unavailable."""
        ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], on_progress: Callable[[str], None]
    ) -> Outcome:
        """Run one tool. Cancelling the task cancels the call at its server; nothing is left running."""
        ...

    def state(self) -> SourceState:
        """How the source is now, as last seen."""
        ...

    async def close(self) -> None:
        """End what the source runs or holds open."""
        ...


@runtime_checkable
class RefusesCalls(Protocol):
    """A source that knows of some calls before anybody is asked that it will not run them."""

    def refusal(self, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
        """What such a call gives; None if it may run."""
        ...


def refusal_of(source: ToolSource, name: str, arguments: Mapping[str, Any]) -> Outcome | None:
    """What a call gives that its source will not run whatever a person says; None for all others."""
    return source.refusal(name, arguments) if isinstance(source, RefusesCalls) else None


@runtime_checkable
class TellsChanges(Protocol):
    """A source that tells when its tools may have changed, while it is connected."""

    def on_change(self, handler: Callable[[], None]) -> Callable[[], None]:
        """Call `handler` after each change; returns a function that ends this."""
        ...


def on_change_of(source: ToolSource, handler: Callable[[], None]) -> Callable[[], None]:
    """Call `handler` after each change that a source tells; returns a function that ends this."""
    return source.on_change(handler) if isinstance(source, TellsChanges) else lambda: None


@runtime_checkable
class LimitsCalls(Protocol):
    """A source that may limit the time of its calls itself, without the time in which a person is asked."""

    @property
    def limits_calls(self) -> bool:
        """Whether it does."""
        ...


def limits_calls(source: ToolSource) -> bool:
    """Whether a source limits the time of its calls itself."""
    return isinstance(source, LimitsCalls) and source.limits_calls
