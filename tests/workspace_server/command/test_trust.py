"""Trusting a workspace at the command line: what is shown is what is trusted, and nothing runs meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.projects.command_home import Home

GH = {"command": "serve-gh", "args": ["-y", "@x/gh"], "env": {"TOKEN": "s3cret-canary"}}
KEY = "script:.lm-tools-bridge/tools/hello"


@pytest.fixture
def full(home: Home) -> Home:
    """One item of each kind."""
    home.script("hello")
    home.servers(gh=GH, lin={"type": "http", "url": "https://mcp.example/mcp"})
    home.write(
        ".vscode/settings.json",
        '{"lmToolsBridge.useWorkspaceSettings": true, "lmToolsBridge.tools.enabledDelta": ["foo"]}',
    )
    return home


def test_everything_that_would_run_is_shown_before_and_trusted_after(full: Home) -> None:
    keys = {KEY, "stdio:gh", "remote:lin", "settings"}
    assert full.states() == dict.fromkeys(keys, "new")
    shown = full.run("trust", full.root, "--yes")
    assert shown.exit_code == 0
    for text in (
        "script tool hello",
        "run.py",
        "serve-gh -y @x/gh",
        str(full.bin / "serve-gh"),
        "TOKEN",
        "https://mcp.example/mcp",
        "foo",
    ):
        assert text in shown.output
    assert full.states() == dict.fromkeys(keys, "trusted")
    assert "trusted already" in full.run("trust", full.root).output


@pytest.mark.parametrize("options", [["--yes"], ["--yes", "--json"], ["--yes", "--data"]])
def test_a_program_that_a_server_started_trusts_nothing(
    full: Home, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as marked:
        marked.setattr("lm_tools_bridge.machine.own_children.is_own_child", lambda pid: pid == os.getpid())
        refused = full.run("trust", full.root, *options)
    assert refused.exit_code == 1 and "in a terminal of yours" in refused.output
    assert set(full.states().values()) == {"new"}
    assert full.run("trust", full.root, *options).exit_code == 0


def test_no_secret_is_shown_or_kept(full: Home) -> None:
    shown = full.run("trust", full.root, "--yes").output + full.run("trust", full.root, "--json").output
    kept = b"".join(path.read_bytes() for path in full.state_dir.rglob("*") if path.is_file())
    assert "s3cret-canary" not in shown and b"s3cret-canary" not in kept


def test_where_nobody_can_be_asked_nothing_is_trusted(full: Home) -> None:
    result = full.run("trust", full.root, text="y\n")
    assert result.exit_code == 1
    assert f"lmtb trust {full.root} --yes" in result.output
    assert "script tool hello" in result.output
    assert set(full.states().values()) == {"new"}
    assert not full.state_dir.exists()


def test_looking_trusting_and_comparing_run_nothing_of_the_workspace(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not a tool, not a server, not what an interpreter or a shell picks up by itself."""
    monkeypatch.setenv("SHELL", "/bin/sh")
    canary = tmp_path / "canary"
    python = f"open({str(canary)!r}, 'w')\n"
    shell = f"#!/bin/sh\ntouch {canary}\n"
    home.script("hello", python)
    for name in (
        "sitecustomize.py",
        "usercustomize.py",
        "click.py",
        "json.py",
        "workspace_server.py",
        "conftest.py",
    ):
        home.write(name, python)
    for name in (".envrc", ".profile", ".bashrc", "npx", "bin/npx", ".git/hooks/post-checkout"):
        home.write(name, shell).chmod(0o755)
    home.write(".git/config", f"[core]\nfsmonitor = touch {canary}\n")
    home.servers(
        gh={"command": "./npx", "args": ["x"], "env": {"PATH": str(home.root), "PYTHONPATH": str(home.root)}},
        sub={"command": "sh", "args": ["-c", f"touch {canary}"]},
        url={"url": f"https://$(touch {canary})/"},
    )
    monkeypatch.chdir(home.root)
    for arguments in ([home.root], [home.root, "--diff"], [home.root, "--yes"], ["--list"]):
        home.run("trust", *arguments)
    home.run("env", home.root)
    with home.at_terminal("trust", home.root) as person:
        assert person.ends_with() == 0
    assert not canary.exists()


def _change(relative: str, text: str) -> Callable[[Home], object]:
    return lambda home: home.write(relative, text)


CHANGES: dict[str, tuple[Callable[[Home], object], str]] = {
    "a byte of a script": (_change(".lm-tools-bridge/tools/hello/run.py", "print(2)\n"), KEY),
    "its tool.toml": (
        _change(".lm-tools-bridge/tools/hello/tool.toml", 'description = "x"\nscript = "run.py"\n'),
        KEY,
    ),
    "a file added to its folder": (_change(".lm-tools-bridge/tools/hello/json.py", ""), KEY),
    "its mode": (lambda home: home.script("hello").chmod(0o755), KEY),
    "an argument": (lambda home: home.servers(gh={**GH, "args": ["-y", "@x/evil"]}), "stdio:gh"),
    "a variable": (lambda home: home.servers(gh={**GH, "env": {"TOKEN": "other"}}), "stdio:gh"),
    "the program in its place": (lambda home: (home.bin / "serve-gh").unlink(), "stdio:gh"),
    "another address": (
        lambda home: home.servers(gh=GH, lin={"type": "http", "url": "https://evil.example/mcp"}),
        "remote:lin",
    ),
    "another setting": (
        _change(
            ".vscode/settings.json",
            '{"lmToolsBridge.useWorkspaceSettings": true, "lmToolsBridge.tools.enabledDelta": ["bar"]}',
        ),
        "settings",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changed_waits_again_and_the_rest_stays_trusted(full: Home, name: str) -> None:
    full.run("trust", full.root, "--yes")
    change, key = CHANGES[name]
    change(full)
    assert {one for one, state in full.states().items() if state != "trusted"} == {key}
    assert full.states()[key] == "changed"


def test_a_copy_of_a_trusted_workspace_is_not_trusted(full: Home, tmp_path: Path) -> None:
    full.run("trust", full.root, "--yes")
    moved = full.root.rename(tmp_path / "moved")
    items = full.json("trust", moved)["items"]
    assert {one["state"] for one in items} == {"new"}


@pytest.mark.parametrize(
    "text",
    [
        "trusted = true\ntrust = 'all'\n",
        "autoApprove = ['*']\n[trust]\nallow = true\n",
        "state_dir = '.state'\n[approvals]\nhello = 'allow'\n",
    ],
)
def test_a_workspace_cannot_trust_itself(full: Home, text: str) -> None:
    full.write(".lm-tools-bridge/workspace.toml", text)
    full.write(".lm-tools-bridge/trust/record.json", "{}")
    assert set(full.states().values()) == {"new"}


def test_a_removed_item_is_no_longer_trusted_when_it_comes_back(full: Home) -> None:
    full.run("trust", full.root, "--yes")
    full.servers(lin={"type": "http", "url": "https://mcp.example/mcp"})
    assert "removed  stdio server gh" in full.run("trust", full.root, "--yes").output
    full.servers(gh=GH, lin={"type": "http", "url": "https://mcp.example/mcp"})
    assert full.states()["stdio:gh"] == "new"


def test_what_is_left_out_is_said(home: Home) -> None:
    home.servers(gh={**GH, "env": {"TOKEN": "${NOT_SET_ANYWHERE}"}})
    result = home.run("trust", home.root)
    assert result.exit_code == 1 and "NOT_SET_ANYWHERE" in result.output


def test_a_workspace_that_brings_nothing_needs_nothing(home: Home) -> None:
    result = home.run("trust", home.root, "--yes")
    assert result.exit_code == 0
    assert "contains nothing that needs trust" in result.output
    assert "Next step" not in result.output
    assert not home.state_dir.exists()


def test_a_workspace_whose_file_is_broken_is_told_to_correct_it(home: Home) -> None:
    (home.root / ".mcp.json").write_text("{ bad")
    result = home.run("trust", home.root, "--yes")
    assert result.exit_code == 1
    assert "nothing to do" not in result.output
    assert "Next step: correct what is listed above" in result.output


# -- the difference --------------------------------------------------------------------------------------


def test_the_difference_shows_what_changed_and_trusts_nothing(full: Home) -> None:
    full.run("trust", full.root, "--yes")
    full.script("hello", "print(2)\n")
    full.servers(gh={**GH, "args": ["-y", "@x/evil"]}, lin={"type": "http", "url": "https://mcp.example/mcp"})
    result = full.run("trust", full.root, "--diff")
    assert result.exit_code == 0
    for line in ("-print(1)", "+print(2)", '-written.args[1] = "@x/gh"', '+written.args[1] = "@x/evil"'):
        assert f"    {line}\n" in result.output
    assert "mcp.example" not in result.output
    assert full.states()[KEY] == "changed"
    changes = full.json("trust", full.root, "--diff")["changes"]
    assert [(one["key"], one["kind"]) for one in changes] == [(KEY, "changed"), ("stdio:gh", "changed")]


def test_hostile_words_reach_the_terminal_as_escapes(home: Home) -> None:
    hostile = "\x1b[2J\x1b]0;owned\x07\u202e\u200b\r"
    home.servers(gh={"command": "npx", "args": [hostile], "env": {"A": hostile}})
    home.script("hello", f"print(1)\n# {hostile}\n")
    shown = home.run("trust", home.root, "--yes").output
    home.script("hello", f"print(2)\n# {hostile}\n")
    shown += home.run("trust", home.root, "--diff").output + home.run("trust", home.root, "--json").output
    assert all(one.isprintable() or one == "\n" for one in shown)


# -- a person at a terminal --------------------------------------------------------------------------------


def test_the_answer_is_for_what_was_shown(full: Home) -> None:
    """What changes while the question stands is not trusted."""
    with full.at_terminal("trust", full.root) as person:
        assert "Trust these 4 items?" in person.read_until(b"[y/N]")
        full.script("hello", "import evil\n")
        person.type("y\n")
        assert person.ends_with() == 0
    assert {key for key, state in full.states().items() if state != "trusted"} == {KEY}
    full.script("hello")
    assert full.states()[KEY] == "trusted"


@pytest.mark.parametrize("answer", ["\n", "\x04"])
def test_everything_but_yes_is_no(home: Home, answer: str) -> None:
    home.script("hello")
    with home.at_terminal("trust", home.root) as person:
        person.read_until(b"[y/N]")
        person.type(answer)
        assert person.ends_with() == 1
    assert home.states() == {KEY: "new"}


# -- taking back, listing, faults --------------------------------------------------------------------------


def test_the_command_that_revokes_trust_can_be_pasted_into_a_shell(full: Home, tmp_path: Path) -> None:
    moved = full.root.rename(tmp_path / "my project")
    assert f"Revoke with: lmtb untrust '{moved}'" in full.run("trust", moved, "--yes").output


def test_untrusting_takes_everything_back(full: Home) -> None:
    full.run("trust", full.root, "--yes")
    assert full.run("untrust", full.root).exit_code == 0
    assert set(full.states().values()) == {"new"}
    again = full.run("untrust", full.root)
    assert again.exit_code == 1 and "lmtb trust --list" in again.output


def test_known_workspaces_are_listed_with_their_states(home: Home, tmp_path: Path) -> None:
    assert "No workspace was trusted yet" in home.run("trust", "--list").output
    roots = {
        name: Home(tmp_path / name, home.config_dir, home.state_dir, home.bin)
        for name in ("same", "other", "gone")
    }
    for one in roots.values():
        one.script("hello")
        one.run("trust", one.root, "--yes")
    roots["other"].script("hello", "print(2)\n")
    roots["gone"].root.rename(tmp_path / "away")
    (home.state_dir / "trust" / "broken.json").write_text("{}")
    (home.state_dir / "trust" / "broken.json").chmod(0o600)
    listed = {one["root"]: one["state"] for one in home.json("trust", "--list")["workspaces"]}
    assert listed.pop(str(roots["same"].root)) == "trusted"
    assert listed.pop(str(roots["other"].root)) == "1 of 1 wait for trust"
    assert listed.pop(str(roots["gone"].root)) == "gone"
    assert listed.popitem()[1].startswith("not valid: ")


def test_a_store_that_is_not_believed_is_said_and_can_be_replaced(full: Home) -> None:
    full.run("trust", full.root, "--yes")
    record = next((full.state_dir / "trust").glob("*.json"))
    record.write_text("{")
    assert full.json("trust", full.root)["trusted"] is False
    result = full.run("trust", full.root, "--yes")
    assert result.exit_code == 0 and "is not a valid trust record" in result.output
    assert set(full.states().values()) == {"trusted"}


def test_a_store_that_cannot_be_written_is_refused_with_the_next_step(full: Home) -> None:
    full.state_dir.write_text("a file")
    result = full.run("trust", full.root, "--yes")
    assert result.exit_code == 1
    assert "Next step:" in result.stderr and str(full.state_dir) in result.stderr


def test_a_folder_that_is_none_is_refused(home: Home) -> None:
    for path in (home.root / "missing", home.write("file", "")):
        result = home.run("trust", path)
        assert result.exit_code == 1 and "is not a folder" in result.output
    refusal = home.json("trust", home.root / "missing")
    assert refusal["ok"] is False and refusal["error"]["reason"] == "no_folder"


@pytest.mark.parametrize("arguments", [[], ["--list", "."], ["--nonsense"]])
def test_wrong_usage_is_told_apart(home: Home, arguments: list[str]) -> None:
    assert home.run("trust", *arguments).exit_code == 2


def test_a_link_to_a_workspace_is_the_workspace(full: Home, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(full.root)
    full.run("trust", link, "--yes")
    assert set(full.states().values()) == {"trusted"}
    assert full.json("trust", link)["root"] == os.path.realpath(full.root)


def test_what_servers_find_is_looked_up_on_the_managers_path(home: Home, tmp_path: Path) -> None:
    """The person's shell may find another program than the server will."""
    other = tmp_path / "other"
    other.mkdir()
    home.servers(gh=GH)
    (home.bin / "serve-gh").rename(other / "serve-gh")
    assert "not found" in replace(home, options=("--path", "/nowhere")).run("trust", home.root).output
    assert (
        str(other / "serve-gh")
        in replace(home, options=("--path", str(other))).run("trust", home.root).output
    )


def _pending(home: Home) -> list[str]:
    answer = home.json("pending", home.root)
    assert answer["command"] == f"lmtb trust {home.root}"
    found: list[str] = answer["pending"]
    return found


def test_only_what_waits_is_named(home: Home) -> None:
    home.script("greet")
    home.servers(gh={"command": "serve-gh"}, lin={"type": "http", "url": "https://mcp.example/mcp"})
    assert _pending(home) == ["greet", "gh", "lin"]
    home.run("trust", home.root, "--yes")
    assert _pending(home) == []
    home.script("greet", "print(2)\n")
    assert _pending(home) == ["greet"]


def test_a_program_that_only_the_login_shell_finds_counts_as_unchanged(home: Home) -> None:
    home.servers(gh={"command": "serve-gh", "args": ["one"]})
    home.run("trust", home.root, "--yes")
    elsewhere = replace(home, options=("--path", "/nowhere"))
    assert _pending(elsewhere) == []
    home.servers(gh={"command": "serve-gh", "args": ["two"]})
    assert _pending(elsewhere) == ["gh"]


def test_everything_waits_in_a_folder_that_replaced_the_trusted_one(home: Home) -> None:
    home.servers(gh={"command": "serve-gh"})
    home.run("trust", home.root, "--yes")
    home.root.rename(home.root.with_name("old"))
    home.root.mkdir()
    home.servers(gh={"command": "serve-gh"})
    assert _pending(home) == ["gh"]


def test_the_login_shell_is_not_started(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shell = home.program("shell")
    shell.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    monkeypatch.setenv("SHELL", str(shell))
    home.servers(gh={"command": "serve-gh"})
    assert _pending(home) == ["gh"]
    assert not (tmp_path / "started").exists()
    home.run("trust", home.root, "--yes")
    assert (tmp_path / "started").exists()
