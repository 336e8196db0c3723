"""Asks clangd for one call of a tool: starts it if that is allowed, and words its failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from lm_tools_bridge.code_intelligence.clangd.answers import ClangdFailure, FailureCode
from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import (
    LanguageServer,
    LanguageServers,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.settings import ClangdSettings
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place, locations_of, places_of
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace, in_copy
from lm_tools_bridge.code_intelligence.wire import document_uris
from lm_tools_bridge.code_intelligence.wire.positions import OutsideText, Position, to_server
from lm_tools_bridge.machine.git_worktrees import are_siblings
from workspace_server.tool import InvalidArguments
from workspace_server.workspace import OutsideWorkspace

NAME: Final = "clangd"
START_S: Final = 30.0
"""What one caller waits for clangd to start; the start goes on, and the next call finds it running."""
_CODES: Final[Mapping[Literal["missing", "untrusted", "disabled", "failed", "starting"], FailureCode]] = {
    "missing": "CLANGD_NOT_FOUND",
    "untrusted": "WORKSPACE_UNTRUSTED",
    "disabled": "CLANGD_START_DISABLED",
    "failed": "CLANGD_CLIENT_UNAVAILABLE",
    "starting": "CLANGD_START_TIMEOUT",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A file that is open in clangd, and a position in it.

    Attributes:
        path: the file.
        params: `TextDocumentPositionParams`, or without a position `{textDocument}`.
    """

    path: Path
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClangdCall:
    """clangd, for the time of one call.

    Attributes:
        workplace: the workspace, as all language tools see it.
        settings: what the user set.
        server: the one clangd of the workspace.
        texts: the text that the call may show.
        freshness: how far its answers can be trusted.
    """

    workplace: Workplace
    settings: ClangdSettings
    server: LanguageServer
    texts: Texts
    freshness: Freshness

    async def ask(self, method: str, params: Any, timeout_s: float | None = None) -> Any:
        """The result of a request.

        Raises:
            ClangdFailure: there is none.
        """
        limit = self.settings.request_timeout_ms / 1000 if timeout_s is None else timeout_s
        try:
            return await self.server.request(method, params, timeout_s=limit)
        except RequestFailed as error:
            raise ClangdFailure("REQUEST_FAILED", f"{method}: {error.message}") from None
        except RequestTimedOut:
            raise ClangdFailure("REQUEST_TIMEOUT", f"{method} took longer than {limit:g} s") from None
        except ServerGone as error:
            raise ClangdFailure("REQUEST_FAILED", f"clangd ended during {method}: {error}") from None

    async def target(self, arguments: Mapping[str, Any], *, with_position: bool = True) -> Target:
        """The file and position that the arguments name, open in clangd.

        Raises:
            ClangdFailure: they do not exist.
        """
        path = await self.file(str(arguments["filePath"]))
        try:
            lines = await self.server.open(path)
        except OSError as error:
            raise ClangdFailure("INVALID_INPUT", f"cannot read {path}: {error.strerror}") from None
        except ServerGone as error:
            raise ClangdFailure("CLANGD_CLIENT_UNAVAILABLE", str(error)) from None
        document = {"textDocument": {"uri": document_uris.to_uri(path)}}
        if not with_position:
            return Target(path, document)
        ours = Position(arguments["position"]["line"], arguments["position"]["character"])
        position = to_server(ours, lines, self.server.encoding)
        if isinstance(position, OutsideText):
            raise ClangdFailure("INVALID_INPUT", position.reason)
        return Target(path, {**document, "position": position})

    async def file(self, text: str) -> Path:
        """The file that a path names, which may lie outside the workspace: then its text is not shown.

        Raises:
            ClangdFailure: there is none.
        """
        return await asyncio.to_thread(find_file, self.workplace, text)

    async def places(self, result: Any) -> list[Place]:
        """The places in a result, in order, each once, without those in git worktrees inside the project."""
        paths = [location.path for location in locations_of(result)]
        own = await self.workplace.own(paths)
        places = await self.workplace.run(paths, lambda: places_of(result, self.texts, self.server.encoding))
        return [place for place in places if place.path in own]

    async def may_say(self, words: str, about: Iterable[Path]) -> bool:
        """As `Texts.may_say`."""
        return await asyncio.to_thread(self.texts.may_say, words, list(about))


async def begin(
    workplace: Workplace, settings: ClangdSettings, *, waits_for_index: bool = True
) -> ClangdCall:
    """clangd for one call: started if needed, told of all changes on disk, and asked how far its index is.

    Args:
        workplace: the workspace.
        settings: what the user set.
        waits_for_index: whether to wait for the index, for as long as one request may take.

    Raises:
        ClangdFailure: it does not run.
    """
    if not settings.auto_start and not is_running(workplace.servers):
        raise ClangdFailure("CLANGD_START_DISABLED", "clangd does not run, and tools may not start it")
    texts = await workplace.texts()
    try:
        async with asyncio.timeout(START_S):
            server = await workplace.servers.server_named(NAME)
    except TimeoutError:
        raise ClangdFailure("CLANGD_START_TIMEOUT", f"clangd did not start within {START_S:g} s") from None
    if server is None:
        raise ClangdFailure("CLANGD_NOT_FOUND", "clangd is not known here")
    if isinstance(server, Unavailable):
        raise ClangdFailure(_CODES[server.state], server.reason)
    try:
        freshness = await server.ready(settings.request_timeout_ms / 1000 if waits_for_index else 0)
    except ServerGone as error:
        raise ClangdFailure("CLANGD_CLIENT_UNAVAILABLE", str(error)) from None
    return ClangdCall(workplace, settings, server, texts, freshness)


def is_running(servers: LanguageServers) -> bool:
    """Whether clangd has been started."""
    return any(server.name == NAME and server.pid is not None for server in servers.status())


def find_file(workplace: Workplace, text: str) -> Path:
    """As `ClangdCall.file`. Blocks."""
    workspace, outside = workplace.workspace, Path(text)
    try:
        path = workspace.resolve_file(text)
    except InvalidArguments as refused:
        project = refused.project if isinstance(refused, OutsideWorkspace) else None
        is_sibling = project is not None and are_siblings(project, workspace.root)
        is_path = "://" not in text and "\0" not in text and outside.is_absolute()
        if not is_sibling and is_path and outside.is_file():
            return outside.resolve()
        raise ClangdFailure("INVALID_INPUT", refused.message) from None
    copy = workplace.copies().around(path)
    if copy is not None:
        raise ClangdFailure("INVALID_INPUT", in_copy(workspace, copy))
    return path
