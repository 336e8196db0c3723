from __future__ import annotations

from typing import Any

import pytest

from support.projects.config_home import ConfigHome
from workspace_server.config.model import Sandbox, StdioServer

SERVER = '[[mcp.stdio_servers]]\nnamespace = "s"\ncommand = ["x"]\n'


def server(home: ConfigHome) -> StdioServer:
    (entry,) = home.current().stdio
    return entry


@pytest.mark.parametrize("written", ["true", '"project"', "{}", '{network = "all"}'])
def test_an_entry_can_ask_for_the_sandbox_of_its_project(home: ConfigHome, written: str) -> None:
    home.workspace(f"{SERVER}sandbox = {written}\n")
    assert server(home).sandbox == Sandbox()
    assert home.codes() == []


def test_an_entry_can_say_what_it_needs_more_and_less(home: ConfigHome) -> None:
    home.workspace(
        f'{SERVER}[mcp.stdio_servers.sandbox]\nwrite = ["/data", "~/notes"]\ndeny_read = ["/k"]\n'
        'deny_write = ["${workspaceFolder}/a"]\nnetwork = "none"\n'
    )
    assert server(home).sandbox == Sandbox(
        write=("/data", "/home/ada/notes"), unread=("/k",), fixed=(f"{home.root}/a",), network=False
    )


@pytest.mark.parametrize(
    "written", ['{write = "/data"}', '{network = "some"}', "{deny_read = [1]}", '{deny_write = "x"}']
)
def test_an_entry_whose_rules_are_wrong_is_skipped(home: ConfigHome, written: str) -> None:
    home.workspace(f"{SERVER}sandbox = {written}\n")
    assert home.current().stdio == ()
    assert home.codes() == ["CONFIG_ENTRY_SKIPPED"]


@pytest.mark.parametrize("written", ['"strict"', '{network = "all", files = []}', "7"])
def test_a_server_whose_rules_are_not_understood_is_held(home: ConfigHome, written: str) -> None:
    home.workspace(f"{SERVER}sandbox = {written}\n")
    assert server(home).unkept == ("sandbox",)


def test_a_file_says_it_for_all_its_servers(home: ConfigHome) -> None:
    home.workspace(f'[mcp]\nsandbox = "project"\n{SERVER}')
    trusted_with = dict(server(home).raw)
    assert server(home).sandbox == Sandbox()
    assert trusted_with["sandbox"] == "project", "else taking it away would need no new trust"
    home.put(".mcp.json", {"mcpServers": {"other": {"command": "y"}}})
    assert [entry.sandbox for entry in home.current().stdio] == [Sandbox(), None]


def test_the_user_says_it_for_the_servers_of_all_projects(home: ConfigHome) -> None:
    home.user('[mcp]\nsandbox = "project"\n')
    home.workspace(f'{SERVER}sandbox = "off"\n')
    assert server(home).sandbox == Sandbox(), "a project cannot take itself out"


def test_what_the_user_says_wrongly_for_all_is_the_strictest_sandbox(home: ConfigHome) -> None:
    home.user('[mcp]\nsandbox = {network = "some"}\n')
    home.workspace(SERVER)
    assert server(home).sandbox == Sandbox(network=False)
    assert home.codes() == ["CONFIG_INVALID_VALUE"]


def test_the_users_own_entry_can_do_without(home: ConfigHome) -> None:
    home.user(f'[mcp]\nsandbox = "project"\n{SERVER}sandbox = "off"\n')
    assert server(home).sandbox is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ('"off"', None),
        ("[]", Sandbox(network=False)),
        ('["/data"]', Sandbox(write=("/data",), network=False)),
    ],
)
def test_the_user_chooses_for_a_server_of_one_project(
    home: ConfigHome, choice: str, expected: Sandbox | None
) -> None:
    home.workspace(f'{SERVER}sandbox = {{network = "none"}}\n')
    home.user(f'[sandbox."{home.root}"]\ns = {choice}\n[sandbox."/elsewhere"]\ns = "off"\n')
    assert server(home).sandbox == expected


def test_a_choice_puts_a_server_into_a_sandbox(home: ConfigHome) -> None:
    home.workspace(SERVER)
    home.user(f'[sandbox."{home.root}"]\ns = []\n')
    assert server(home).sandbox == Sandbox()


def test_a_choice_that_cannot_be_read_changes_nothing(home: ConfigHome) -> None:
    home.workspace(f'{SERVER}sandbox = "project"\n')
    home.user(f'[sandbox."{home.root}"]\ns = "of"\n')
    assert server(home).sandbox == Sandbox()
    assert home.codes() == ["CONFIG_INVALID_VALUE"]


def test_a_project_chooses_nothing(home: ConfigHome) -> None:
    home.workspace(f'{SERVER}sandbox = "project"\n[sandbox."{home.root}"]\ns = "off"\n')
    assert server(home).sandbox == Sandbox()


def vscode(home: ConfigHome, rules: Any = None, **more: Any) -> StdioServer:
    document: dict[str, Any] = {"servers": {"s": {"command": "x", "sandboxEnabled": True, **more}}}
    home.put(".vscode/mcp.json", document if rules is None else {**document, "sandbox": rules})
    return server(home)


def test_vscodes_sandbox_is_held_with_its_rules_for_files(home: ConfigHome) -> None:
    files = {"allowWrite": ["/data"], "denyRead": ["/k"], "denyWrite": ["${workspaceFolder}/a"]}
    entry = vscode(home, {"filesystem": files}, ignore_restrictions=["sandbox.network"])
    assert entry.sandbox == Sandbox(write=("/data",), unread=("/k",), fixed=(f"{home.root}/a",))
    assert entry.unkept == ()
    assert home.codes() == []
    assert entry.raw["sandbox"] == {"filesystem": files}, "else new rules would need no new trust"


@pytest.mark.parametrize("rules", [None, {"network": {"allowedDomains": ["example.org"]}}, {}])
def test_vscodes_limit_of_domains_holds_the_server(home: ConfigHome, rules: Any) -> None:
    """Without rules, VS Code lets it reach npm's registry only."""
    assert vscode(home, rules).unkept == ("sandbox.network",)


@pytest.mark.parametrize("rules", [{"filesystem": {"allowRead": ["/"]}}, {"seccomp": {}}, "strict", []])
def test_rules_of_vscode_that_are_not_known_hold_the_server(home: ConfigHome, rules: Any) -> None:
    assert vscode(home, rules, ignore_restrictions=["sandbox.network"]).unkept == ("sandbox",)


def test_rules_of_vscode_are_for_the_servers_that_ask_for_them(home: ConfigHome) -> None:
    entry = vscode(home, {"filesystem": {"allowWrite": []}}, sandboxEnabled=False)
    assert (entry.sandbox, entry.unkept) == (None, ())
    assert home.codes() == []


def test_who_gave_up_the_sandbox_runs_without_one(home: ConfigHome) -> None:
    entry = vscode(home, {"filesystem": {}}, ignore_restrictions=["sandboxEnabled"])
    assert (entry.sandbox, entry.unkept) == (None, ())
