"""What the pictures of the page show: projects with servers, and agents in several windows that call tools.

Windows are processes of their own, as those of agents are: `python -m scripts.walkthrough.page_scene NAME
ADDRESS FOLDER TOOLS` is one. It calls tools until its standard input ends.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from lm_tools_bridge.protocol import headers, jsonrpc, names
from manager.configuration.paths import Paths
from manager.server_command import server_command
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment.own_manager import Manager, bound_session, post, project
from support.projects.script_tools import write_tool

ROOT: Final = Path(__file__).resolve().parents[2]
SERVER: Final = """\
import json, sys, time
NAME, TOOLS = sys.argv[1], sys.argv[2].split(",")
HELD = bytearray(b"x") * 45_000_000  # as much as a small server on Node.js
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {}
    if request["method"] == "initialize":
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": NAME, "version": "1"}}
    elif request["method"] == "tools/list":
        schema = {"type": "object", "properties": {"path": {"type": "string", "description": "A path."}}}
        result = {"tools": [{"name": tool, "description": f"{tool.capitalize()} in {NAME}.",
                             "inputSchema": schema} for tool in TOOLS]}
    elif request["method"] == "tools/call":
        time.sleep(0.3)
        result = {"content": [{"type": "text", "text": "done"}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""
"""An MCP server that works a while for each call."""


class ExampleProject(NamedTuple):
    """A project of the picture.

    Attributes:
        servers: its MCP servers with their tools; one without tools ends at once.
        windows: the agents in it, by what they call themselves, each with the tools that it calls.
    """

    servers: Mapping[str, Sequence[str]]
    windows: Sequence[tuple[str, Sequence[str]]]
    is_trusted: bool = True


PROJECTS: Final[Mapping[str, ExampleProject]] = {
    "shop": ExampleProject(
        {"git": ("log", "diff", "commit"), "postgres": ("query", "explain"), "browser": ("open", "click")},
        [
            ("claude-code", ["git__log", "postgres__query"]),
            ("claude-code", []),
            ("claude-code", ["lm_listDirectory"]),
            ("codex-mcp-client", ["git__diff"]),
        ],
    ),
    "blog": ExampleProject(
        {"filesystem": ("read", "write"), "search": ()},
        [("cursor-vscode", ["filesystem__read"]), ("claude-code", [])],
    ),
    "weather": ExampleProject({"stations": ("list",)}, [("gemini-cli-mcp-client", [])], is_trusted=False),
}


@contextlib.contextmanager
def scene(one: Manager, folder: Path) -> Iterator[None]:
    """Open the projects and the windows, until the block ends."""
    _write_users_tools(Path(one.environ["LMTB_CONFIG_DIR"]) / "tools")
    with contextlib.ExitStack() as stack:
        for name, example in PROJECTS.items():
            root = _make_project(one, folder / name, example)
            for client, tools in example.windows:
                stack.enter_context(_window(client, one.address(), root, tools))
        _ask_for_approval(one, folder / "weather")
        yield


def _write_users_tools(tools: Path) -> None:
    write_tool(tools, "word_count", description="Counts words.")
    asks = 'requires_approval = true\n[parameters.version]\ntype = "string"\n'
    write_tool(tools, "publish", toml=asks, description="Publishes a version.")


def _make_project(one: Manager, root: Path, example: ExampleProject) -> Path:
    project(root)
    (root / "server.py").write_text(SERVER)
    entries = {
        server: {"command": sys.executable, "args": ["server.py", server, ",".join(tools)]}
        if tools
        else {"command": "false"}
        for server, tools in example.servers.items()
    }
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    if example.is_trusted:
        command = server_command(Paths.of_user(one.environ), None)
        trust = [*command, "trust", "--yes", "--json", "--", str(root)]
        subprocess.run(trust, check=True, stdout=subprocess.DEVNULL)
    return root


@contextlib.contextmanager
def _window(client: str, address: str, root: Path, tools: Sequence[str]) -> Iterator[None]:
    command = [sys.executable, "-m", __spec__.name, client, address, str(root), *tools]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE) as window:
        try:
            yield
        finally:
            assert window.stdin is not None
            window.stdin.close()


def _ask_for_approval(one: Manager, root: Path) -> None:
    asking = threading.Thread(target=_publish, args=(one, root))
    asking.daemon = True  # it waits for a person, and ends with the manager
    asking.start()
    while not one.control.get("/approvals")["approvals"]:
        time.sleep(0.1)


def _publish(one: Manager, root: Path) -> None:
    with contextlib.suppress(OSError):  # the manager may end first
        _call(one.address(), bound_session(one, root), "publish", {"version": "1.4.0"})


def _call(address: str, session: str, tool: str, arguments: Mapping[str, object]) -> None:
    body = jsonrpc.request(b"1", names.TOOLS_CALL, {"name": tool, "arguments": arguments})
    post(address, body, {headers.VERSION: REVISION, headers.SESSION: session})


def be_window(client: str, address: str, root: str, tools: Sequence[str]) -> None:
    """Connect as an agent of a project, and call its tools in turns until standard input ends."""
    info = {"name": client, "version": "1.0"}
    params: dict[str, Any] = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": info}
    address = f"{address}?cwd={root}"
    _, said = post(address, jsonrpc.request(b"1", names.INITIALIZE, params), {})
    session = said[headers.SESSION]
    fields = {headers.VERSION: REVISION, headers.SESSION: session}
    post(address, jsonrpc.notification(names.INITIALIZED), fields)
    post(address, jsonrpc.request(b"2", names.TOOLS_LIST, {}), fields)
    turns = itertools.cycle(tools)
    while not select.select([sys.stdin], [], [], 0.4)[0]:
        if tools:
            _call(address, session, next(turns), {"path": "."})


if __name__ == "__main__":
    with contextlib.suppress(OSError, KeyboardInterrupt):
        client_name, manager_address, project_root, *tool_names = sys.argv[1:]
        be_window(client_name, manager_address, project_root, tool_names)
