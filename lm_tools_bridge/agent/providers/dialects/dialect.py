"""Defines what a dialect is: requests, a reader of replies, ids of calls, pictures, lists of models."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Message,
    ModelEvent,
    ModelRequest,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)

PATHS: Final[Mapping[str, str]] = {
    "ollama": "/api/tags", "openai": "/models", "anthropic": "/v1/models?limit=1000",
    "gemini": "/models?pageSize=1000",
}  # fmt: skip
"""Dialect -> path of the list; Azure has none of the deployments."""
_MEMBERS: Final[Mapping[str, tuple[str, str]]] = {
    "ollama": ("models", "name"), "openai": ("data", "id"), "anthropic": ("data", "id"),
    "gemini": ("models", "name"),
}  # fmt: skip


def model_names(kind: str, document: Any) -> tuple[str, ...]:
    """The names of the models that can chat, as the provider orders them; empty if it is no such list."""
    entries, name = _MEMBERS[kind]
    values = document.get(entries) if isinstance(document, dict) else None
    models = [model for model in (values if isinstance(values, list) else ()) if isinstance(model, dict)]
    names = [
        model[name].removeprefix("models/") for model in models if _chats(model) and _is_name(model.get(name))
    ]
    return tuple(dict.fromkeys(names))


def _chats(model: Mapping[str, Any]) -> bool:
    """Gemini's list says what each model is for."""
    methods = model.get("supportedGenerationMethods")
    return not isinstance(methods, list) or "generateContent" in methods


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


LARGEST: Final = 5 * 1024 * 1024
"""Characters of a picture in base64; a larger one is only named in the text of the result."""


class Picture(NamedTuple):
    """A picture: its media type, and its bytes in base64."""

    kind: str
    data: str


def pictures_of(result: Result, kinds: Collection[str]) -> Iterator[Picture]:
    """The pictures of a result that have one of these media types and are not too large."""
    for block in result.content:
        kind, data = block.get("mimeType"), block.get("data")
        is_picture = block.get("type") == "image" and isinstance(kind, str) and kind in kinds
        if is_picture and isinstance(data, str) and len(data) <= LARGEST:
            yield Picture(str(kind), data)


_STRICTEST: Final = 9
"""Letters and digits of an id at the provider with the narrowest rule, Mistral; made ids have as many."""


class CallIds:
    """The ids of one conversation.

    Args:
        messages: the history, whose ids are taken.
    """

    def __init__(self, messages: Iterable[Message]) -> None:
        replies = [message for message in messages if isinstance(message, AssistantMessage)]
        self._taken = {call.id for reply in replies for call in reply.calls}
        self._made = 0

    def give(self, preferred_id: str | None) -> str:
        """The id of a new call: the provider's own, or one made if there is none or it came twice."""
        name = preferred_id or self._next()
        while name in self._taken:
            name = self._next()
        self._taken.add(name)
        return name

    def _next(self) -> str:
        self._made += 1
        return f"call{self._made:05}"


def fitting(name: str, pattern: re.Pattern[str]) -> str:
    """An id as a provider accepts it: unchanged if it matches, else always the same nine characters."""
    return (
        name
        if pattern.fullmatch(name)
        else hashlib.sha256(name.encode(errors="replace")).hexdigest()[:_STRICTEST]
    )


NO_DESCRIPTION: Final = "No description provided"
_EMPTY_SCHEMA: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "required": []}
CUT: Final = "the reply was cut off"
Framing = Literal["sse", "lines"]
Document = TypeVar("Document", bound=msgspec.Struct)


class ReplyError(Exception):
    """A reply cannot be used; the message is the cause in words. It may quote the server."""


class ReplyReader(Protocol):
    """Reads one reply. A reply that is not streamed is read as one document."""

    def read(self, document: bytes) -> list[ModelEvent]:
        """The events of the next JSON document of the stream. Raises ReplyError."""
        ...

    def end(self) -> list[ModelEvent]:
        """The events that the end of the stream completes, last Usage and Finish. Raises ReplyError."""
        ...


class Dialect(Protocol):
    """One dialect. `framing` is how the documents of a streamed reply are told apart.

    `takes_open_calls`: a call in the history may have no result.
    """

    framing: Framing
    takes_open_calls: bool

    def path(self, model: str, *, stream: bool) -> str:
        """What follows the provider's address, query included; never holds the key."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """The headers of a request, with the key."""
        ...

    def body(self, request: ModelRequest) -> dict[str, Any]:
        """The body of a request."""
        ...

    def reader(self, ids: CallIds) -> ReplyReader:
        """A reader for one reply."""
        ...

    def window_request(self, model: str) -> tuple[str, dict[str, Any] | None] | None:
        """Path and body (None for GET) of the question for a model's context window, if it can be asked."""
        ...

    def window(self, document: Any, model: str) -> int | None:
        """The context window in tokens, from the answer to that question."""
        ...


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as JSON in UTF-8; half a surrogate pair becomes a question mark."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


def arguments_text(arguments: Mapping[str, Any] | None) -> str:
    """The arguments of a call in the history as JSON text; those that were no object as an empty one."""
    return json.dumps(arguments or {}, ensure_ascii=False)


def system_text(messages: Iterable[Message]) -> str:
    """The system prompt, for servers that take it apart from the messages."""
    return "\n\n".join(message.text for message in messages if isinstance(message, SystemMessage))


def with_joined_results(
    messages: Iterable[Message],
) -> Iterator[UserMessage | AssistantMessage | Sequence[Result]]:
    """The messages without the system's, and all results of a reply as one."""
    results: list[Result] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            results.append(message.result)
            continue
        if results:
            yield results
            results = []
        if not isinstance(message, SystemMessage):
            yield message
    if results:
        yield results


def decoded(document: bytes, kind: type[Document]) -> Document:
    """One document of a reply.

    Raises:
        ReplyError: it is not JSON, or nothing of this dialect.
    """
    try:
        return msgspec.json.decode(document, type=kind)
    except msgspec.ValidationError:
        raise ReplyError("the server sent JSON of another form than its dialect has") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ReplyError("the server sent something that is not JSON") from None


def error_text(error: Any) -> str:
    """What an error in a reply says: text, or an object with a `message`."""
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("type") or "no reason given"
    return f"the server reported an error: {error}"


def number(value: Any) -> int | None:
    """A positive whole number, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def schema_of(tool: Tool) -> Mapping[str, Any]:
    """The schema of a tool's arguments, unchanged; one without members becomes that of an empty object."""
    return tool.input_schema or _EMPTY_SCHEMA


def function_of(tool: Tool) -> dict[str, Any]:
    """A tool in the form of OpenAI, which Ollama has as well."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description or NO_DESCRIPTION,
            "parameters": schema_of(tool),
        },
    }
