"""The shape of the house, read off the imports: who may know whom, who must stay pure, how large a file grows.

`lint-imports` (see pyproject.toml) says the same of the layers; this test needs nothing but the standard
library, and looks at more.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import lm_tools_bridge
import manager
import workspace_server

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lm_tools_bridge", "manager", "workspace_server")

IMPURE = frozenset({
    "asyncio", "aiohttp", "socket", "subprocess", "threading", "time", "random", "secrets", "os", "pathlib", "psutil",
    "structlog", "sqlite3", "uvloop", "signal", "select",
})  # fmt: skip

SDK_USERS = frozenset(
    {
        "lm_tools_bridge.demo.code_tour",
        "lm_tools_bridge.demo.project_tools",
        "lm_tools_bridge.demo.tour",
        "lm_tools_bridge.recorder.replay",
    }
)
"""Where the official SDK is used beside the workspace server: the demonstration and a replay are clients."""

LONGEST = 500
LONGER: dict[str, str] = {}
"""Files over the limit, each with the reason why it is better in one piece."""
PLAY = 30
"""So many lines may an exempt file shrink below the limit before its exemption is out of date."""


@cache
def modules() -> dict[str, Path]:
    """Every module of ours by its dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def read(module: str) -> tuple[str | None, frozenset[str]]:
    """The docstring of a module, and the dotted names it imports. Parsed once for all tests."""
    tree = ast.parse(modules()[module].read_text(encoding="utf-8"))
    return ast.get_docstring(tree), frozenset(_imports(tree))


def imports(module: str) -> frozenset[str]:
    """Dotted names a module imports, wherever in it; ours are resolved to modules."""
    return read(module)[1]


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules() else node.module


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def of_ours(module: str) -> frozenset[str]:
    return frozenset(name for name in imports(module) if name in modules())


def members(package: str) -> list[str]:
    return [name for name in modules() if within(name, package)]


def test_the_packages_under_test_are_those_of_this_repository() -> None:
    for package in (lm_tools_bridge, manager, workspace_server):
        assert package.__file__ is not None
        assert Path(package.__file__).resolve().parents[1] == ROOT


def test_the_walk_sees_the_house() -> None:
    """Otherwise every other test here would pass for nothing."""
    assert {
        "lm_tools_bridge.protocol.sse",
        "manager.daemon",
        "manager.routing.resolution",
        "workspace_server.http.routes",
    } <= set(modules())
    assert "manager.answers.dispatch" in of_ours("manager.assembly")
    assert "asyncio" in imports("manager.daemon")


@pytest.mark.parametrize(
    ("package", "other"), [("manager", "workspace_server"), ("workspace_server", "manager")]
)
def test_manager_and_workspace_server_know_each_other_over_the_wire_only(package: str, other: str) -> None:
    assert [name for name in members(package) if any(within(one, other) for one in imports(name))] == []


def test_what_decides_is_pure_and_so_is_all_it_knows() -> None:
    """No clock, no chance, no system: time and chance are passed in."""
    seen: set[str] = set()
    waiting = [*members("lm_tools_bridge.protocol"), *members("manager.routing")]
    while waiting:
        name = waiting.pop()
        seen.add(name)
        assert {one.partition(".")[0] for one in imports(name)} & IMPURE == set(), name
        waiting += of_ours(name) - seen


def test_there_are_no_import_cycles() -> None:
    graph = {name: of_ours(name) - {name} for name in modules()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")
    assert len(order) == len(modules())


def test_the_official_sdk_is_used_in_the_demonstration_only() -> None:
    """0.6 s and 66 MB: the daemon must not pay for it."""
    users = {
        name
        for name in [*members("lm_tools_bridge.protocol"), *members("manager")]
        if {one.partition(".")[0] for one in imports(name)} & {"mcp", "mcp_types"}
    }
    assert users <= SDK_USERS


def test_every_module_says_what_it_is() -> None:
    """It begins with what it is, and what it deliberately is not."""
    assert [name for name in modules() if not read(name)[0]] == []


def test_a_file_is_short_or_has_a_reason_not_to_be() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in modules().values()
    }
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST and path not in LONGER} == {}
    short = {path for path, lines in lengths.items() if lines <= LONGEST - PLAY}
    assert short & set(LONGER) == set(), "the exemption is out of date"


def test_exemptions_are_of_files_that_exist() -> None:
    assert [path for path in LONGER if not (ROOT / path).is_file()] == []


def test_the_daemon_starts_without_what_it_rarely_needs() -> None:
    """In a fresh interpreter, as it is started: isolated, from the installed package."""
    heavy = {
        "mcp", "mcp_types", "httpx2", "click", "pydantic", "pydantic_core", "pydantic_settings", "psutil",
        "cryptography", "tomlkit", "anyio", "jsonschema_rs", "platformdirs", "prometheus_client",
        "rich", "pygments", "aiohttp", "attr", "yarl", "multidict",
    }  # fmt: skip
    program = (
        "import sys, manager.daemon\nfrom pathlib import Path\nfrom manager.configuration.paths import Paths\n"
        "from manager.configuration.settings import Settings\nfrom manager.features import DaemonStart, make_parts\n"
        "make_parts(DaemonStart(Settings(), Paths(*[Path('/nonexistent')] * 4), ''))\n"
        "print(manager.__file__); print(*sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=30
    ).stdout.splitlines()
    assert Path(said[0]).resolve() == ROOT / "manager" / "__init__.py"
    loaded = {name.partition(".")[0] for name in said[1].split()}
    assert {"httptools", "msgspec"} <= loaded
    assert loaded & heavy == set()


def test_pages_are_loaded_soon_after_the_start_and_the_first_one_loads_nothing_of_ours() -> None:
    """In an upgrade the files are the next version's before this one is stopped."""
    program = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom types import SimpleNamespace\n"
        "import manager.daemon as daemon\nfrom manager.configuration.paths import Paths\n"
        "from manager.configuration.settings import Settings\n"
        "from manager.features import DaemonParts, DaemonStart, make_parts\n"
        "from manager.listener.aiohttp_server import LazyAiohttpServer\n"
        "def make_control():\n"
        "    from manager.listener.pages import control_runner\n"
        "    return control_runner(services, None, status, status, paths=paths, features=features)\n"
        "def make_app():\n"
        "    from manager.listener.pages import port_app\n"
        "    return port_app(services, status, status, features)\n"
        "paths = Paths(*[Path('/nonexistent')] * 4)\n"
        "features = list(make_parts(DaemonStart(Settings(), paths, 'http://127.0.0.1:1/mcp')).values())\n"
        "status, services = (lambda: {}), SimpleNamespace(port=1)\n"
        "for feature in features:\n"
        "    feature.connect(DaemonParts(services, status, SimpleNamespace(), None, None, {}, None))\n"
        "async def main():\n"
        "    control = LazyAiohttpServer(make_control)\n"
        "    port = daemon.Runner(make_app, daemon.AdmissionRules.for_ports([1]))\n"
        "    print(*sys.modules)\n    await port.load(), await control.load()\n"
        "    before = set(sys.modules)\n    print(*before)\n"
        "    port._aiohttp.protocol(), control.protocol()\n"
        "    await control.close()\n    await port.cleanup()\n"
        "    print(*(set(sys.modules) - before))\n"
        "asyncio.run(main())"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    at_start, soon, by_page = (line.split() for line in said.stdout.splitlines())
    served = {"aiohttp.web", "manager.listener.pages", "lm_tools_bridge.page.routes"}
    assert served.isdisjoint(at_start)  # MCP clients wait for the start, and need none of it
    assert served <= set(soon), said.stderr
    assert [name for name in by_page if name.partition(".")[0] in PACKAGES] == []


def test_what_serves_pages_reads_no_certificates() -> None:
    """They take as long as all the rest of aiohttp; it makes contexts of them that nobody here uses."""
    program = (
        "import asyncio, gc, ssl\nfrom manager.listener.aiohttp_server import LazyAiohttpServer\n"
        "from manager.http import lazy_aiohttp as web\ndef make():\n    return web.AppRunner(web.Application())\n"
        "async def main():\n    late = LazyAiohttpServer(make)\n    late.protocol()\n    await late.close()\n"
        "asyncio.run(main())\n"
        "import aiohttp.connector, sys\nassert sys.modules['ssl'] is ssl\n"
        "print(sum(isinstance(one, ssl.SSLContext) for one in gc.get_objects()))"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=30
    ).stdout.split()
    assert said == ["0"]


def test_short_verbs_import_nothing_heavy() -> None:
    program = (
        "import sys\nsys.argv = ['lmtb', 'status']\nfrom manager.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    print(*sys.modules)"
    )
    nowhere = {"HOME": "/nonexistent", "LMTB_RUNTIME_DIR": "/nonexistent/run"}
    said = subprocess.run(
        [sys.executable, "-I", "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        env=nowhere,
        check=True,
    ).stdout.splitlines()
    loaded = {name.partition(".")[0] for name in said[-1].split()}
    assert {"click", "manager"} <= loaded
    assert loaded & {
        "aiohttp", "asyncio", "msgspec", "structlog", "psutil", "pydantic", "rich", "sqlite3", "ssl", "logging",
        "hashlib", "subprocess", "tomllib",
    } == set()  # fmt: skip
