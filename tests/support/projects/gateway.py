"""A running manager with a user configuration, projects with content, and clients of both eras."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientResponse, ClientSession

from lm_tools_bridge.protocol import headers, names
from lm_tools_bridge.recorder.call_log import Call, CallLog, Filter
from manager.client import Control
from support.clients.raw_clients import Client, SessionClient, StatelessClient
from support.clients.stateless_requests import events
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.processes.timeouts import within
from support.projects.registered_setup import raw_http
from support.projects.script_tools import write_tool
from workspace_server.command.trust_view import all_items
from workspace_server.trust.store import TrustStore

if TYPE_CHECKING:
    import mcp

FORMS: dict[str, Any] = {names.META_CAPABILITIES: {"elicitation": {"form": {}}}}
"""What `_meta` of a client says that can show forms to its user."""


@dataclass
class Gateway:
    """One manager and its user. `config` is the user's configuration folder."""

    manager: RunningManager
    http: ClientSession
    folder: Path

    @property
    def config(self) -> Path:
        return self.manager.paths.config_dir

    def user_tool(
        self, name: str, script: str | bytes = "print(1)\n", toml: str = "", **members: Any
    ) -> Path:
        """A tool in the user's own folder, which needs no trust."""
        return write_tool(self.config / "tools", name, script, toml, **members)

    def configure(self, text: str) -> None:
        """Write the user's configuration file."""
        self.config.mkdir(parents=True, exist_ok=True)
        (self.config / "workspace.toml").write_text(text)

    async def recorded(self, wanted: Filter, count: int) -> list[Call]:
        """The calls that match, oldest first, once so many are recorded."""

        async def found() -> list[Call]:
            log = CallLog.open(self.manager.paths.calls_file)
            if log is None:
                return []
            with log:
                calls = log.find(wanted, 1_000)[::-1]
            return calls if len(calls) >= count else []

        calls: list[Call] = await eventually(found)
        return calls

    def project(self, name: str, **files: str) -> Project:
        """A new project."""
        return Project(self, make_project(self.folder / name, **files))


@dataclass
class Project:
    """One workspace of a running_gateway."""

    gateway: Gateway
    root: Path

    @property
    def url(self) -> str:
        """Its workspace endpoint."""
        return f"{self.gateway.manager.address}?cwd={self.root}"

    @property
    def pinned_url(self) -> str:
        """The same for clients whose roots are not on this machine, or elsewhere on it."""
        return f"{self.url}&pin=true"

    @property
    def modern(self) -> StatelessClient:
        """A stateless client at the workspace endpoint."""
        return StatelessClient(self.gateway.http, self.url)

    async def legacy(self) -> SessionClient:
        """A client with a session that has shaken hands."""
        client = await SessionClient.connect(self.gateway.http, self.gateway.manager.address)
        assert (await client.handshake(self.root)).payload["ok"] is True
        return client

    async def session_of(self, name: str) -> SessionClient:
        """A client with a session and this name, at the workspace endpoint."""
        client = SessionClient(self.gateway.http, self.url)
        me = {"name": name, "version": "1"}
        params = {"protocolVersion": client.revision, "capabilities": {}, "clientInfo": me}
        client.session = (await client.ask(names.INITIALIZE, params)).headers[headers.SESSION]
        return client

    def tool(self, name: str, script: str | bytes = "print(1)\n", toml: str = "", **members: Any) -> Path:
        """A tool that comes with the workspace."""
        return write_tool(self.root / ".lm-tools-bridge/tools", name, script, toml, **members)

    def servers(self, **servers: dict[str, Any]) -> None:
        """Write `.mcp.json`, whole from one moment to the next."""
        new = self.root / ".mcp.json.new"
        new.write_text(json.dumps({"mcpServers": servers}))
        new.replace(self.root / ".mcp.json")

    async def trust(self) -> None:
        """Trust all that is there now, as `lmtb trust --yes` does."""
        await asyncio.to_thread(self._trust)

    def _trust(self) -> None:
        items = all_items(self.root, self.gateway.config, os.environ)
        TrustStore(self.gateway.manager.paths.state_dir / "trust").trust(self.root, items)

    async def until_listed(self, *tools: str, seconds: float = 10.0) -> None:
        """Wait until a stateless client's list has all these tools, and no source still has to answer."""

        async def are_listed() -> bool:
            result = (await self.modern.ask(names.TOOLS_LIST)).result
            is_whole = "SOURCE_STARTING" not in _codes_in(result)
            return is_whole and set(tools) <= {tool["name"] for tool in result["tools"]}

        await eventually(are_listed, seconds)

    def clear(self) -> None:
        """Remove all tools and settings, the project's and the user's."""
        for folder in (self.root / ".lm-tools-bridge", self.gateway.config / "tools"):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.root / ".mcp.json", self.gateway.config / "workspace.toml"):
            file.unlink(missing_ok=True)

    async def inspect(self) -> dict[str, Any]:
        """What the user's command line is told about its tools and sources."""
        control = Control(self.gateway.manager.paths.control_socket, 30.0)
        return await asyncio.to_thread(control.post, "/inspect", {"cwd": str(self.root)})


async def listed(client: Client, **options: Any) -> dict[str, dict[str, Any]]:
    """The tools a client is shown, by name."""
    answer = await client.ask(names.TOOLS_LIST, **options)
    return {tool["name"]: tool for tool in answer.result["tools"]}


async def text_of(client: Client, tool: str, /, **arguments: Any) -> str:
    """The text of a call that must not fail."""
    result = (await client.call(tool, arguments)).result
    assert not result.get("isError"), result
    return str(result["content"][0]["text"])


async def found(client: Client, query: str) -> list[str]:
    """The names `tool_search` finds."""
    payload = (await client.call("tool_search", {"query": query, "max_results": 100})).payload
    return [hit["name"] for hit in payload["results"]]


async def codes(client: Client) -> list[str]:
    """The codes of the issues that come with the list."""
    return _codes_in((await client.ask(names.TOOLS_LIST)).result)


def _codes_in(result: Mapping[str, Any]) -> list[str]:
    return [issue["code"] for issue in result.get("_meta", {}).get(names.META_ISSUES, [])]


async def eventually(what: Callable[[], Any], seconds: float = 5.0) -> Any:
    """The first true value of an asynchronous question, asked again and again."""
    async with asyncio.timeout(within(seconds)):
        while not (value := await what()):
            await asyncio.sleep(0.02)
    return value


@contextlib.asynccontextmanager
async def listening(client: StatelessClient) -> AsyncIterator[ClientResponse]:
    """An acknowledged listen stream for changes of the tool list."""
    body = client.body(names.LISTEN, {"notifications": {"toolsListChanged": True}}, "listener")
    async with client.open(body) as response:
        assert [one["method"] for one in await events(response, 1)] == [names.ACKNOWLEDGED]
        yield response


async def structured(client: mcp.Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of a call that must not fail."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def told(response: ClientResponse) -> None:
    """The stream says once that the tools changed within 2 s."""
    async with asyncio.timeout(within(2)):
        (event,) = await events(response, 1)
    assert event["method"] == names.TOOLS_CHANGED


@contextlib.asynccontextmanager
async def running_gateway(folder: Path, **settings: Any) -> AsyncIterator[Gateway]:
    """A running_gateway below a temporary folder; the user's home is inside it."""
    folder = folder.resolve()
    with pytest.MonkeyPatch.context() as patch:
        (folder / "home").mkdir(exist_ok=True)
        patch.setenv("HOME", str(folder / "home"))
        for name in [one for one in os.environ if one.startswith(("XDG_", "LMTB_"))]:
            patch.delenv(name)
        async with running_manager(folder / "manager", **settings) as manager, raw_http() as http:
            yield Gateway(manager, http, folder)


@contextlib.asynccontextmanager
async def project_with_servers(
    installed: Path, folder: Path, files: Mapping[str, str]
) -> AsyncIterator[Project]:
    """A project of a manager whose PATH begins with the language servers of the folder `installed`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{installed / 'venv/bin'}{os.pathsep}{os.environ['PATH']}")
        async with running_gateway(folder) as gateway:
            yield gateway.project("proj", **files)
