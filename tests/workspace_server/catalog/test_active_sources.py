"""The sources of a workspace follow its files and the user's trust with every request."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.catalog.active_sources import ActiveSources
from workspace_server.catalog.registry import Registry
from workspace_server.command.trust_view import all_items
from workspace_server.config.model import RemoteServer, ScriptSettings, StdioServer
from workspace_server.source import Source
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.sources.dependencies import Dependencies
from workspace_server.sources.factory import SourceFactory
from workspace_server.trust.store import TrustStore


class FakeSourceFactory(SourceFactory):
    """Creates sources that do nothing, and records their names."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._searches = KeptSearches()
        self.made: list[str] = []

    def script(self, identity: str, scripts: ScriptSettings, trust: Any) -> Source:
        self.made.append(identity)
        return ScriptedSource(identity=identity)

    def code(self) -> Source:
        self.made.append("code")
        return ScriptedSource([tool("execute_code")], identity="execute_code")

    def server(self, entry: StdioServer | RemoteServer, guard: Any = None) -> Source:
        self.made.append(entry.namespace)
        return ScriptedSource([tool("x")], identity=entry.namespace, namespace=entry.namespace)


class SourcesSetup:
    """A workspace with files, the user's folders, and the active sources of its server."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.root, self.config, self.state = folder / "project", folder / "config", folder / "state"
        for one in (self.root, self.config, self.state):
            one.mkdir()
        self.environ = environ
        self.dependencies = Dependencies(
            "ws", str(self.root), "1", environ, self.config, self.state, folder / "run"
        )
        self.registry = Registry()
        self.factory = FakeSourceFactory(self.dependencies)
        self.builtin = ScriptedSource([tool("b")], identity="builtin")
        self.builtin.kind = "builtin"
        self.sources = ActiveSources(self.registry, self.dependencies, [self.builtin], self.factory)

    def servers(self, **entries: Any) -> None:
        (self.root / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))

    def user(self, text: str) -> None:
        (self.config / "workspace.toml").write_text(text)

    async def trust(self) -> None:
        items = await asyncio.to_thread(all_items, self.root, self.config, self.environ)
        TrustStore(self.state / "trust").trust(self.root, items)

    async def states(self) -> dict[str, str]:
        await self.sources.configure()
        await self.registry.snapshot()
        return {row["id"]: row["state"] for row in self.registry.sources()}

    async def issues(self) -> list[tuple[str, str]]:
        configuration = await self.sources.configure()
        found = (*configuration.issues, *(await self.registry.snapshot()).issues)
        return [(issue.level, issue.code) for issue in found]


@pytest.fixture
def setup(tmp_path: Path) -> SourcesSetup:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SHELL": "/bin/sh"}
    return SourcesSetup(tmp_path, environ)


SLEEPER: Mapping[str, Any] = {"command": "sleep", "args": ["1"]}


async def test_server_of_the_workspace_waits_for_trust_and_is_made_once_trusted(setup: SourcesSetup) -> None:
    setup.servers(one=SLEEPER)
    assert (await setup.states())["stdio:one"] == "pending_trust"
    assert ("warning", "TRUST_PENDING") in await setup.issues()
    await setup.trust()
    assert (await setup.states())["one"] == "ready"
    assert "one" in setup.factory.made


async def test_changed_entry_is_pending_again_and_the_others_stay(setup: SourcesSetup) -> None:
    setup.servers(one=SLEEPER, two=SLEEPER)
    await setup.trust()
    assert set(await setup.states()) >= {"one", "two"}
    kept = next(row for row in setup.registry.sources() if row["id"] == "two")
    setup.servers(one={"command": "sleep", "args": ["2"]}, two=SLEEPER)
    states = await setup.states()
    assert (states["stdio:one"], states["two"]) == ("pending_trust", kept["state"])
    assert setup.factory.made.count("two") == 1


async def test_a_server_with_a_limit_that_cannot_be_kept_is_not_made(setup: SourcesSetup) -> None:
    setup.servers(boxed={**SLEEPER, "sandboxEnabled": True}, free=SLEEPER)
    await setup.trust()
    states = await setup.states()
    assert (states["stdio:boxed"], states["free"]) == ("failed", "ready")
    assert "boxed" not in setup.factory.made
    (row,) = (row for row in setup.registry.sources() if row["id"] == "stdio:boxed")
    assert '"ignore_restrictions": ["sandbox.network"]' in row["error"]


async def test_users_own_servers_need_no_trust_and_follow_the_file(setup: SourcesSetup) -> None:
    """Add, change, remove without a restart."""
    entry = '[[mcp.stdio_servers]]\nnamespace = "mine"\ncommand = ["sleep", "{}"]\n'
    setup.user(entry.format(1))
    assert (await setup.states())["mine"] == "ready"
    setup.user(entry.format(2))
    await setup.states()
    assert setup.factory.made.count("mine") == 2
    setup.user(entry.format(2) + "enabled = false\n")
    assert (await setup.states())["stdio:mine"] == "disabled"
    setup.user("")
    assert not any("mine" in name for name in await setup.states())


async def test_widening_settings_of_the_workspace_wait_for_trust(setup: SourcesSetup) -> None:
    folder = setup.root / ".lm-tools-bridge"
    folder.mkdir()
    (folder / "workspace.toml").write_text(
        'useWorkspaceSettings = true\n[tools]\nenabledDelta = ["hidden"]\ndisabledDelta = ["b"]\n'
    )
    configuration = await setup.sources.configure()
    assert "hidden" not in configuration.deltas.enabled
    assert "b" in configuration.deltas.disabled
    assert ("warning", "TRUST_PENDING") in await setup.issues()
    await setup.trust()
    assert "hidden" in (await setup.sources.configure()).deltas.enabled


async def test_denied_tools_stay_denied_if_the_users_file_is_broken_at_start(tmp_path: Path) -> None:
    """A typing error opens nothing."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SHELL": "/bin/sh"}
    setup = SourcesSetup(tmp_path, environ)
    setup.user('[approvals]\ndeploy = "deny"\n[tools]\ndisabledDelta = ["b"]\n')
    assert (await setup.sources.configure()).approvals == {"deploy": "deny"}
    for broken in ("oops =", f"x = {'9' * 5000}"):
        setup.user(broken)
        later = ActiveSources(
            Registry(), setup.dependencies, [setup.builtin], FakeSourceFactory(setup.dependencies)
        )
        found = await later.configure()
        assert found.approvals == {"deploy": "deny"}
        assert found.deltas.disabled == ("b",)
        assert "CONFIG_UNREADABLE" in {issue.code for issue in found.issues}


async def test_nothing_is_made_anew_while_nothing_changes(setup: SourcesSetup) -> None:
    setup.servers(one=SLEEPER)
    await setup.trust()
    first = await setup.sources.configure()
    made = list(setup.factory.made)
    assert await setup.sources.configure() is first
    assert setup.factory.made == made


async def test_placeholders_get_values_that_only_the_login_shell_knows(tmp_path: Path) -> None:
    """A service knows less than the user's terminal."""
    (tmp_path / ".profile").write_text("export ONLY_THE_SHELL=here\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SHELL": "/bin/sh"}
    setup = SourcesSetup(tmp_path, environ)
    setup.user('[[mcp.stdio_servers]]\nnamespace = "mine"\ncommand = ["sleep", "${ONLY_THE_SHELL}"]\n')
    assert (await setup.states())["mine"] == "ready"
    assert "ONLY_THE_SHELL" not in await setup.dependencies.child_environment()


async def test_variable_of_a_token_may_be_one_that_only_the_login_shell_knows(tmp_path: Path) -> None:
    """All who ask while the shell is asked wait for it, so that no source is made without it."""
    (tmp_path / ".profile").write_text("export TOKEN=here\n")
    setup = SourcesSetup(tmp_path, {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SHELL": "/bin/sh"})
    setup.user('[[mcp.remote_servers]]\nnamespace = "r"\nurl = "https://example.com"\ntoken_env = "TOKEN"\n')
    seen = []

    def server(entry: StdioServer | RemoteServer, guard: Any) -> Source:
        seen.append(setup.dependencies.variables.get("TOKEN"))
        return FakeSourceFactory.server(setup.factory, entry)

    setup.factory.server = server  # looks before it makes what it always makes
    await asyncio.gather(setup.states(), setup.states(), setup.states())
    assert seen == ["here"]


async def test_a_default_applies_only_if_the_login_shell_sets_no_value(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("export HOST=from-the-shell\n")
    setup = SourcesSetup(tmp_path, {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SHELL": "/bin/sh"})
    setup.user(
        '[[mcp.remote_servers]]\nnamespace = "r"\nurl = "https://${HOST:-default}/${OTHER_HOST:-default}"\n'
    )
    (entry,) = (await setup.sources.configure()).remote
    assert (entry.url, entry.defaulted) == ("https://from-the-shell/default", ("OTHER_HOST",))


async def test_servers_get_the_proxies_of_the_login_shell_and_scripts_do_not(tmp_path: Path) -> None:
    """The manager's own proxies come first."""
    (tmp_path / ".profile").write_text("export https_proxy=shell no_proxy=shell\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SHELL": "/bin/sh", "no_proxy": "own"}
    setup = SourcesSetup(tmp_path, environ)
    found = await setup.dependencies.server_environment()
    assert (found["https_proxy"], found["no_proxy"]) == ("shell", "own")
    assert not {"https_proxy", "no_proxy"} & (await setup.dependencies.child_environment()).keys()


async def test_execute_code_is_there_only_when_the_user_switched_it_on(setup: SourcesSetup) -> None:
    folder = setup.root / ".lm-tools-bridge"
    folder.mkdir()
    (folder / "workspace.toml").write_text("[scripts]\nexecute_code = true\n")
    await setup.states()
    assert "code" not in setup.factory.made
    setup.user("[scripts]\nexecute_code = true\n")
    await setup.states()
    assert "code" in setup.factory.made


async def test_order_of_sources_is_that_of_their_entries(setup: SourcesSetup) -> None:
    """And it does not depend on what was there before."""
    setup.user(
        "".join(
            f'[[mcp.stdio_servers]]\nnamespace = "{name}"\ncommand = ["sleep", "1"]\n' for name in ("z", "a")
        )
    )
    names = [name for name in await setup.states() if not name.startswith(("script", "skills"))]
    assert names == ["builtin", "language_servers", "z", "a"]


async def test_built_in_tools_go_and_come_with_the_file(setup: SourcesSetup) -> None:
    for text, shown in (("", True), ("[builtin]\nenabled = false\n", False), ("", True)):
        setup.user(text)
        there = list(await setup.states())
        assert ("builtin" in there) is shown
    assert "b" in {tool.name for tool in (await setup.registry.snapshot()).tools}
    assert "language_servers" in there


async def test_language_servers_and_the_clangd_tools_follow_their_settings(setup: SourcesSetup) -> None:
    for text, shown in (
        ("", ["language_servers"]),
        ("[clangd]\nenabled = true\n", ["language_servers", "clangd"]),
        ("[language_servers]\nenabled = false\n[clangd]\nenabled = true\n", []),
    ):
        setup.user(text)
        there = await setup.states()
        assert [name for name in there if name in ("language_servers", "clangd")] == shown
