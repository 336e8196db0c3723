"""Plays a client: makes its first requests to the manager in its name, and judges what it would see. Blocks.

The version that it names is marked, so that `lmtb clients` does not count it, and its session is ended.
VS Code, Cursor, Zed, Windsurf and Claude Desktop are assumed to introduce themselves as it says here; the
others were observed. What follows from the name is in `manager/routing/client_profiles.py`.
"""

from __future__ import annotations

import http.client
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.client_setup.clients import Machine
from lm_tools_bridge.client_setup.configuration_checks import Problem
from lm_tools_bridge.client_setup.configured_entries import ClientConfiguration, Configured
from lm_tools_bridge.machine.proved_server import require_own_server
from lm_tools_bridge.protocol import headers, names, sse
from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from lm_tools_bridge.protocol.internal.source_states import STARTING
from lm_tools_bridge.protocol.names import LATEST_LEGACY, LATEST_MODERN, Era, era_of
from manager.cli.output.findings import Level
from manager.routing.client_profiles import ClientProfile
from manager.routing.state.client_overview import PLAYED


class Introduction(NamedTuple):
    """What a client says about itself.

    Attributes:
        name: in `clientInfo`.
        version: in `clientInfo`.
        revision: the revision of MCP that it speaks; a modern one has no sessions.
        has_roots: whether it answers `roots/list` with its folder.
    """

    name: str
    version: str
    revision: str
    has_roots: bool


INTRODUCTIONS: Final[Mapping[str, Introduction]] = {
    "claude-code": Introduction("claude-code", "2.1.332", LATEST_MODERN, has_roots=True),
    "codex": Introduction("codex-mcp-client", "0.171.0", "2025-06-18", has_roots=False),
    "gemini-cli": Introduction("gemini-cli-mcp-client", "0.61.0", "2025-06-18", has_roots=True),
    "opencode": Introduction("opencode", "1.18.33", LATEST_LEGACY, has_roots=True),
    "vscode": Introduction("Visual Studio Code", "1.0.0", LATEST_LEGACY, has_roots=True),
    "cursor": Introduction("cursor-vscode", "1.0.0", "2025-06-18", has_roots=False),
    "copilot-cli": Introduction("copilot-cli", "1.0.102", LATEST_MODERN, has_roots=False),
    "qwen-code": Introduction(f"qwen-cli-mcp-client-{ENTRY_NAME}", "0.0.1", LATEST_LEGACY, has_roots=True),
    "kilo": Introduction("kilo", "7.7.7", LATEST_LEGACY, has_roots=True),
    "cline": Introduction("@cline/core", "0.0.0", LATEST_LEGACY, has_roots=False),
    "continue": Introduction("continue-cli-client", "1.0.0", LATEST_LEGACY, has_roots=False),
    "grok": Introduction(f"grok-shell-{ENTRY_NAME}", "1.0.41", LATEST_LEGACY, has_roots=False),
    # Of these seven, only Droid was heard; the others get what the protocol says, whatever their names are.
    "crush": Introduction("crush", "0.96.1", LATEST_LEGACY, has_roots=False),
    "droid": Introduction("factory-cli", "0.225.2", LATEST_LEGACY, has_roots=False),
    "goose": Introduction("goose", "1.0.0", "2025-03-26", has_roots=False),
    "kiro": Introduction("kiro", "1.0.0", LATEST_LEGACY, has_roots=False),
    "amp": Introduction("amp-mcp-client", "1.0.0", LATEST_LEGACY, has_roots=False),
    "junie": Introduction("junie", "1.0.0", LATEST_LEGACY, has_roots=False),
    "antigravity": Introduction("antigravity", "1.0.0", LATEST_LEGACY, has_roots=False),
    "zed": Introduction("Zed", "0.1.0", "2025-03-26", has_roots=False),
    "windsurf": Introduction("windsurf-client", "1.0.0", "2025-03-26", has_roots=False),
    "claude-desktop": Introduction("claude-ai", "0.1.0", "2025-06-18", has_roots=False),
}
"""By the id of `lm_tools_bridge/client_setup/clients.py`."""

MAX_PAGES: Final = 100
"""Pages of a list after which the check gives up: a list without an end must not keep it for ever."""
_IN_URLS: Final = "%!$&'()*+,;=:@/?"


class Unanswered(Exception):
    """The manager gave no usable answer; the message says what it did."""


class TooLate(Unanswered):
    """The manager did not answer in time."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client got.

    Attributes:
        tools: the names in its first list.
        workspace: id of the workspace that was found.
        source: how it was found, as `X-Workspace-Source` has it.
        seconds: how long connecting and the list took.
    """

    tools: tuple[str, ...]
    workspace: str | None
    source: str
    seconds: float


@dataclass(slots=True)
class PlayedClient:
    """One client that connects, lists the tools and leaves.

    Args:
        introduction: how it introduces itself.
        address: where it connects to.
        headers: what it sends with each request.
        root: the folder with which it answers `roots/list`, as a URI.
        wait_s: how long one answer may take.
        reads_all_pages: whether it asks for further pages of the list.
    """

    introduction: Introduction
    address: str
    headers: Mapping[str, str]
    root: str
    wait_s: float
    reads_all_pages: bool = True
    _session: str | None = field(default=None, init=False)
    _found: tuple[str | None, str] = field(default=(None, "none"), init=False)
    _id: int = field(default=0, init=False)
    _gave_roots: bool = field(default=False, init=False)

    def play(self) -> Seen:
        """Make the first requests.

        Raises:
            Unanswered: the manager cannot be reached, refuses, or does not answer in time.
        """
        begun = time.monotonic()
        try:
            self._connect()
            tools = tuple(self._list())
            seconds = time.monotonic() - begun
            if self._gave_roots:  # the headers of the list were sent before its roots were known
                self._request(names.TOOLS_LIST, {})
            return Seen(tools, *self._found, seconds)
        finally:
            if self._session is not None:
                self._leave()

    @property
    def _is_modern(self) -> bool:
        return era_of(self.introduction.revision) is Era.MODERN

    def _info(self) -> dict[str, str]:
        return {"name": self.introduction.name, "version": self.introduction.version + PLAYED}

    def _capabilities(self) -> dict[str, Any]:
        return {"roots": {}} if self.introduction.has_roots else {}

    def _connect(self) -> None:
        if self._is_modern:
            self._request(names.DISCOVER, {})
            return
        about = {
            "protocolVersion": self.introduction.revision,
            "capabilities": self._capabilities(),
            "clientInfo": self._info(),
        }
        self._request(names.INITIALIZE, about)
        self._post({"jsonrpc": "2.0", "method": names.INITIALIZED})

    def _list(self) -> Iterator[str]:
        cursor: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            result = self._request(names.TOOLS_LIST, cursor)
            yield from (str(tool.get("name")) for tool in result.get("tools", []))
            if not self.reads_all_pages or not result.get("nextCursor"):
                return
            cursor = {"cursor": result["nextCursor"]}

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        if self._is_modern:
            meta = {
                names.META_VERSION: self.introduction.revision,
                names.META_CAPABILITIES: self._capabilities(),
                names.META_CLIENT: self._info(),
            }
            params = {**params, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        answer = self._post(message, method)
        if "error" in answer:
            error = answer["error"]
            error_text = error.get("message") if isinstance(error, dict) else error
            raise Unanswered(f"{method} was refused: {error_text}")
        result = answer.get("result")
        if not isinstance(result, dict):
            raise Unanswered(f"{method} got no result")
        return result

    def _post(self, message: dict[str, Any], method: str = "") -> dict[str, Any]:
        """Send a message; the response to it, {} if it needs none."""
        connection = self._open()
        try:
            self._prove_server(connection)
            connection.request("POST", self._target(), json.dumps(message).encode(), self._head(method))
            response = connection.getresponse()
            self._session = response.getheader(headers.SESSION) or self._session
            self._found = (
                response.getheader(headers.WORKSPACE_ID) or self._found[0],
                response.getheader(headers.WORKSPACE_SOURCE) or self._found[1],
            )
            return self._response_to(message, response) if "id" in message and "method" in message else {}
        except TimeoutError as error:
            raise TooLate(f"no answer to {method} within {self.wait_s:g} s") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unanswered(f"{urlsplit(self.address).netloc} cannot be used: {error}") from error
        finally:
            connection.close()

    def _response_to(self, message: Mapping[str, Any], response: http.client.HTTPResponse) -> dict[str, Any]:
        if not (response.getheader("Content-Type") or "").startswith("text/event-stream"):
            answer = json.loads(response.read() or b"{}")
            return answer if isinstance(answer, dict) else {}
        decoder = sse.Decoder()
        while line := response.readline():
            for event in decoder.feed(line):
                event_data = json.loads(event.data) if event.data else {}
                if event_data.get("method") == names.ROOTS_LIST:
                    self._gave_roots = True
                    roots = {"roots": [{"uri": self.root}]}
                    self._post({"jsonrpc": "2.0", "id": event_data["id"], "result": roots})
                elif event_data.get("id") == message["id"]:
                    return dict(event_data)
        return {}

    def _leave(self) -> None:
        connection = self._open()
        try:
            self._prove_server(connection)
            connection.request("DELETE", self._target(), headers=self._head(""))
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass  # the manager ends silent sessions by itself
        finally:
            connection.close()

    def _open(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        return http.client.HTTPConnection(
            parts.hostname or "127.0.0.1", parts.port or 80, timeout=self.wait_s
        )

    def _prove_server(self, connection: http.client.HTTPConnection) -> None:
        """What the client sends may hold a token: only a program of this user gets it."""
        connection.connect()
        ends = connection.sock.getsockname(), connection.sock.getpeername()
        require_own_server(*ends, has_secret=bool(self.headers))

    def _target(self) -> str:
        parts = urlsplit(self.address)
        return quote(parts.path + (f"?{parts.query}" if parts.query else ""), safe=_IN_URLS)

    def _head(self, method: str) -> dict[str, str]:
        own = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            headers.VERSION: self.introduction.revision,
        }
        if self._session is not None:
            own[headers.SESSION] = self._session
        if self._is_modern and method:
            own[headers.METHOD] = method
        return {**{key: _one_line(value) for key, value in self.headers.items()}, **own}


def _one_line(value: str) -> str:
    """A header value as the client's bytes: UTF-8, as real clients send it."""
    return value.encode().decode("latin-1").replace("\r", "").replace("\n", "")


_TOLERANCE: Final = 1.1
"""The times of the profiles are a tenth shorter than what the clients wait."""
_BUILT_IN: Final = "builtin"
_FINDERS: Final = frozenset({"tool_search", "search_project_tools", "execute_tool"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where clients are played: the machine, the folder, the root of its project if it has one."""

    machine: Machine
    folder: Path
    root: Path | None


@dataclass(frozen=True, slots=True)
class Tools:
    """All tools and sources of the project, as its workspace server has them."""

    tools: tuple[Mapping[str, Any], ...] = ()
    sources: tuple[Mapping[str, Any], ...] = ()


def too_late(reason: Unanswered, wait_s: float, tools: Tools, place: Place) -> Problem:
    """The problem of a client that would have given up before its first list."""
    slow = ", ".join(
        str(source.get("namespace")) for source in tools.sources if source.get("state") in STARTING
    )
    why = f"; still starting: {slow}" if slow else ""
    text = f"{reason}{why}; it waits {wait_s:g} s"
    return Problem(Level.WARN, text, f"lmtb servers --cwd {shlex.quote(str(place.root or place.folder))}")


def late(view: Seen, wait_s: float, tools: Tools, profile: ClientProfile, place: Place) -> Iterator[Problem]:
    """A list that takes longer than the client waits, and servers whose tools are not in it yet."""
    here = shlex.quote(str(place.root or place.folder))
    if view.seconds > wait_s * _TOLERANCE:
        text = f"its first list took {view.seconds:.1f} s, but it waits for {wait_s:g} s only"
        yield Problem(Level.WARN, text, f"start the project's server first: lmtb tools --cwd {here}")
    prefixes = {_prefix(name) for name in view.tools}
    after = "they follow as a list change"
    if profile.hears_list_changed == "never":
        after = "it never lists again; until then: tool_search and execute_tool"
    starting = (str(source.get("namespace")) for source in tools.sources if source.get("state") in STARTING)
    for own in starting:
        if own in prefixes:
            continue
        text = f"the tools of {own} come late: the server is still starting; {after}"
        yield Problem(Level.WARN, text, f"lmtb servers --cwd {here}")


def _prefix(name: str) -> str:
    return name.partition("__")[0]


def twice(
    view: Seen, configuration: ClientConfiguration, cure: Callable[[Configured], str]
) -> Iterator[Problem]:
    """Servers that the client has itself, and whose tools it has from us as well.

    Args:
        cure: says how the client is kept from starting a server.
    """
    for own in configuration.others:
        count = sum(_prefix(tool) == namespace_of(own.name) for tool in view.tools)
        if count:
            what = f"{count} tool{'s' * (count > 1)} of {own.name}"
            text = f"it sees {what} twice: it starts this server itself ({own.where})"
            yield Problem(Level.WARN, text, cure(own))


def summary(view: Seen, tools: Tools, place: Place) -> str:
    """One line: how many tools, whose, in which project."""
    names_of = ((str(tool.get("name")), str(tool.get("source"))) for tool in tools.tools)
    # some clients get names with one `_` as separator
    source_of = {spelt: source for name, source in names_of for spelt in (name, name.replace("__", "_", 1))}
    counts = Counter(_origin(name, source_of) for name in view.tools)
    parts = ", ".join(f"{count} {origin}" for origin, count in counts.items())
    where = (
        "no project" if view.workspace is None else f"{place.root or view.workspace}, found by {view.source}"
    )
    word = "tool" if len(view.tools) == 1 else "tools"
    return f"{len(view.tools)} {word} ({parts or 'none'}) in {view.seconds:.1f} s; {where}"


def _origin(name: str, source_of: Mapping[str, str]) -> str:
    if name in names.MANAGER_TOOL_NAMES:
        return "of the manager"
    source = source_of.get(name)
    if source is None:
        return "to find others" if name in _FINDERS else "others"
    return "built in" if source == _BUILT_IN else f"of {source}"
