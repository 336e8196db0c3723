"""Tests that all files of a project change or none, and that undo restores their bytes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.adoption.adoption_files import (
    PlannedAdoption,
    PlannedUndo,
    ProjectFiles,
    UserFiles,
)
from lm_tools_bridge.client_setup.adoption.decision import Adoption
from lm_tools_bridge.client_setup.clients import Machine
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.machine.project_file import HeldFolder

CLAUDE = b'{\r\n  "mcpServers": {"a": {"command": "a"}}\r\n}'
VSCODE = b'\xef\xbb\xbf{"servers": {"b": {"command": "b"}}, // rest\n"inputs": []}\n'
CHANGED = (".lm-tools-bridge/workspace.toml", ".mcp.json", ".vscode/mcp.json")


@pytest.fixture
def files(tmp_path: Path) -> ProjectFiles:
    root = tmp_path / "project"
    (root / ".vscode").mkdir(parents=True)
    (root / ".mcp.json").write_bytes(CLAUDE)
    (root / ".mcp.json").chmod(0o644)
    (root / ".vscode/mcp.json").write_bytes(VSCODE)
    return ProjectFiles(root, tmp_path / "state")


def planned(files: ProjectFiles) -> PlannedAdoption:
    found = files.plan()
    assert isinstance(found, PlannedAdoption), found
    return found


def adopt(files: ProjectFiles) -> None:
    assert files.adopt(planned(files)) is None


def undo(files: ProjectFiles) -> Refusal | None:
    found = files.plan_undo()
    return found if isinstance(found, Refusal) else files.undo(found)


def contents(files: ProjectFiles) -> dict[str, bytes]:
    found = (one for one in files.root.rglob("*") if one.is_file())
    return {one.relative_to(files.root).as_posix(): one.read_bytes() for one in found}


def test_undo_restores_every_byte_and_deletes_what_was_made(files: ProjectFiles) -> None:
    before = contents(files)
    adopt(files)
    assert contents(files).keys() == set(CHANGED)
    assert all(contents(files)[path] != content for path, content in before.items())
    assert (files.root / ".mcp.json").stat().st_mode & 0o777 == 0o644
    assert undo(files) is None
    assert contents(files) == before
    assert not (files.root / ".lm-tools-bridge").exists()


def test_undo_keeps_a_workspace_toml_that_was_there(files: ProjectFiles) -> None:
    own = files.root / ".lm-tools-bridge/workspace.toml"
    own.parent.mkdir()
    own.write_bytes(b"# mine\r\n")
    adopt(files)
    assert undo(files) is None
    assert own.read_bytes() == b"# mine\r\n"


def test_undo_is_possible_once(files: ProjectFiles) -> None:
    adopt(files)
    assert undo(files) is None
    again = undo(files)
    assert isinstance(again, Refusal)
    assert again.reason == "no_undo"


@pytest.mark.parametrize("path", CHANGED)
def test_undo_keeps_what_others_wrote_into_one_of_the_files(files: ProjectFiles, path: str) -> None:
    before = contents(files)
    adopt(files)
    file = files.root / path
    file.write_bytes(file.read_bytes() + b"\n")
    assert undo(files) is None
    added = {path: before[path] + b"\n"} if path in before else {}
    assert contents(files) == {**before, **added}


def test_undo_is_refused_for_all_files_if_a_server_was_changed_since(files: ProjectFiles) -> None:
    adopt(files)
    file = files.root / ".lm-tools-bridge/workspace.toml"
    file.write_bytes(file.read_bytes().replace(b"command = [", b'command = ["nice", ', 1))
    now = contents(files)
    refused = undo(files)
    assert isinstance(refused, Refusal)
    assert refused.reason == "changed_since"
    assert str(file) in refused.message
    assert [state.path for state, _ in files.changed_since()] == [file]
    assert contents(files) == now


def test_undo_restores_the_rest_if_a_file_is_as_it_was_before(files: ProjectFiles) -> None:
    before = contents(files)
    adopt(files)
    (files.root / ".mcp.json").write_bytes(CLAUDE)
    assert undo(files) is None
    assert contents(files) == before


@pytest.mark.parametrize("failing", CHANGED)
def test_a_failure_in_the_middle_restores_the_files_written_before(
    files: ProjectFiles, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(files)
    plan = planned(files)
    write = HeldFolder.write

    def full(folder: HeldFolder, name: str, content: bytes, mode: int = 0o600) -> None:
        if folder.path / name == files.root / failing:
            raise OSError(28, "No space left on device")
        write(folder, name, content, mode)

    monkeypatch.setattr(HeldFolder, "write", full)
    refused = files.adopt(plan)
    assert isinstance(refused, Refusal)
    assert refused.reason == "write_failed"
    assert contents(files) == before
    assert not (files.root / ".lm-tools-bridge").exists()
    remembered = undo(files)
    assert isinstance(remembered, Refusal) and remembered.reason == "no_undo"


def test_an_interruption_restores_the_files_written_before(
    files: ProjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(files)
    plan = planned(files)
    write = HeldFolder.write

    def interrupted(folder: HeldFolder, name: str, content: bytes, mode: int = 0o600) -> None:
        write(folder, name, content, mode)
        if folder.path / name == files.root / ".mcp.json" and content != CLAUDE:
            raise KeyboardInterrupt

    monkeypatch.setattr(HeldFolder, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.adopt(plan)
    assert contents(files) == before


def test_undo_restores_what_a_failed_change_could_not_restore(
    files: ProjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(files)
    plan = planned(files)
    write = HeldFolder.write

    def full(folder: HeldFolder, name: str, content: bytes, mode: int = 0o600) -> None:
        if folder.path / name == files.root / ".vscode/mcp.json" or content == CLAUDE:
            raise OSError(28, "No space left on device")
        write(folder, name, content, mode)

    with monkeypatch.context() as patch:
        patch.setattr(HeldFolder, "write", full)
        refused = files.adopt(plan)
    assert isinstance(refused, Refusal)
    assert f"{files.root / '.mcp.json'} could not be restored" in refused.message
    assert "lmtb adopt --undo" in refused.message
    assert contents(files) != before
    assert undo(files) is None
    assert contents(files) == before


def test_a_failed_change_keeps_the_undo_of_the_one_before(
    files: ProjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(files)
    adopt(files)
    (files.root / ".cursor").mkdir()
    cursor = files.root / ".cursor/mcp.json"
    cursor.write_text('{"mcpServers": {"c": {"command": "c"}}}')
    plan = planned(files)
    cursor.chmod(0o444)
    refused = files.adopt(plan)
    assert isinstance(refused, Refusal) and refused.reason == "read_only"
    cursor.unlink()
    assert undo(files) is None
    assert contents(files) == before


def test_a_file_changed_between_plan_and_write_is_kept(files: ProjectFiles) -> None:
    plan = planned(files)
    (files.root / ".vscode/mcp.json").write_bytes(b"{}")
    before = contents(files)
    refused = files.adopt(plan)
    assert isinstance(refused, Refusal)
    assert refused.reason == "changed_meanwhile"
    assert contents(files) == before


@pytest.mark.parametrize("path", [".mcp.json", ".lm-tools-bridge/workspace.toml"])
def test_links_to_files_outside_of_the_project_are_refused(
    files: ProjectFiles, path: str, tmp_path: Path
) -> None:
    """Else a project could put its servers into the user's `workspace.toml`, which needs no trust."""
    target = tmp_path / "of_the_user"
    target.write_bytes(b"")
    place = files.root / path
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(target)
    refused = files.plan()
    assert isinstance(refused, Refusal)
    assert refused.reason == "link"


def test_a_linked_folder_outside_of_the_project_is_refused(files: ProjectFiles, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (files.root / ".lm-tools-bridge").symlink_to(tmp_path / "elsewhere")
    refused = files.plan()
    assert isinstance(refused, Refusal)
    assert refused.reason == "link"


def test_a_link_inside_of_the_project_is_refused(files: ProjectFiles) -> None:
    (files.root / ".cursor").mkdir()
    (files.root / ".cursor/mcp.json").symlink_to("../.mcp.json")
    refused = files.plan()
    assert isinstance(refused, Refusal)
    assert refused.reason == "link"
    assert "put a file of its own in its place" in refused.next_step


def _lead_away(place: Path, target: Path) -> None:
    """Put a link in the place of a file or folder, as a program of the project may at any moment."""
    if place.exists():
        place.rename(place.with_name("aside"))
    place.symlink_to(target)


@pytest.mark.parametrize(
    ("exchanged", "exists"),
    [
        (".lm-tools-bridge", True),
        (".lm-tools-bridge", False),
        (".lm-tools-bridge/workspace.toml", True),
        (".mcp.json", True),
        (".vscode", True),
        ("", True),
    ],
)
def test_what_becomes_a_link_while_the_user_is_asked_is_not_written(
    files: ProjectFiles, exchanged: str, exists: bool, tmp_path: Path
) -> None:
    """The user's own `workspace.toml` needs no trust, so nothing of a project may get there."""
    if exists:
        (files.root / ".lm-tools-bridge").mkdir()
    if exchanged.endswith("workspace.toml"):
        (files.root / exchanged).write_bytes(b"")
    plan = planned(files)
    of_the_user = tmp_path / "of_the_user"
    of_the_user.mkdir()
    place = files.root / exchanged
    _lead_away(place, of_the_user if not place.is_file() else of_the_user / "workspace.toml")
    refused = files.adopt(plan)
    assert isinstance(refused, Refusal)
    assert refused.reason in {"changed_meanwhile", "link"}
    assert list(of_the_user.iterdir()) == []


def test_another_folder_in_the_place_of_the_one_that_was_shown_is_not_written(
    files: ProjectFiles, tmp_path: Path
) -> None:
    (files.root / ".lm-tools-bridge").mkdir()
    plan = planned(files)
    (files.root / ".lm-tools-bridge").rename(tmp_path / "aside")
    (files.root / ".lm-tools-bridge").mkdir()
    refused = files.adopt(plan)
    assert isinstance(refused, Refusal) and refused.reason == "changed_meanwhile"
    assert list((files.root / ".lm-tools-bridge").iterdir()) == []


@pytest.mark.parametrize("exchanged", [".vscode", ".mcp.json", ".lm-tools-bridge"])
def test_undo_writes_nothing_behind_a_link_that_came_meanwhile(
    files: ProjectFiles, exchanged: str, tmp_path: Path
) -> None:
    adopt(files)
    plan = files.plan_undo()
    assert not isinstance(plan, Refusal)
    of_the_user = tmp_path / "of_the_user"
    of_the_user.mkdir()
    place = files.root / exchanged
    is_file = place.is_file()
    copies = {} if is_file else {file.name: file.read_bytes() for file in place.iterdir()}
    for name, content in copies.items():  # the same bytes as in the folder that was shown
        (of_the_user / name).write_bytes(content)
    _lead_away(place, of_the_user / "f" if is_file else of_the_user)
    assert isinstance(files.undo(plan), Refusal)
    assert {file.name: file.read_bytes() for file in of_the_user.iterdir()} == copies


def test_a_read_only_file_is_refused_before_anything_is_written(files: ProjectFiles) -> None:
    (files.root / ".vscode/mcp.json").chmod(0o444)
    refused = files.plan()
    assert isinstance(refused, Refusal)
    assert refused.reason == "read_only"


def test_servers_that_clients_start_are_those_that_can_move_and_are_enabled(files: ProjectFiles) -> None:
    servers = (
        '{"mcpServers": {"a": {"command": "a"}, "off": {"command": "o", "disabled": true}, "x": {"type": 1}}}'
    )
    (files.root / ".mcp.json").write_text(servers)
    found = {file.client: names for file, names in files.started_by_clients().items()}
    assert found == {"Claude Code": ["a"], "VS Code": ["b"]}
    adopt(files)
    assert files.started_by_clients() == {}


def adopt_by_name(files: ProjectFiles, *names: str) -> dict[str, bytes]:
    """Adopt these servers; the files as they were before."""
    before = contents(files)
    plan = files.plan(names)
    assert isinstance(plan, PlannedAdoption)
    assert files.adopt(plan) is None
    return before


def test_undo_goes_back_step_by_step(files: ProjectFiles) -> None:
    start = adopt_by_name(files, "a")
    middle = adopt_by_name(files, "b")
    assert undo(files) is None
    assert contents(files) == middle
    assert undo(files) is None
    assert contents(files) == start
    refusal = undo(files)
    assert isinstance(refusal, Refusal) and refusal.reason == "no_undo"


def test_undo_of_everything_goes_back_to_the_start(files: ProjectFiles) -> None:
    start = adopt_by_name(files, "a")
    adopt_by_name(files, "b")
    plan = files.plan_undo(whole=True)
    assert isinstance(plan, PlannedUndo) and files.undo(plan) is None
    assert contents(files) == start
    assert not files.has_undo()


def test_undo_of_everything_keeps_what_others_wrote_between_and_after(files: ProjectFiles) -> None:
    adopt_by_name(files, "a")
    own = files.root / ".mcp.json"
    own.write_text('{"mcpServers": {}, "counter": 1}\n')
    adopt_by_name(files, "b")
    own.write_text('{"mcpServers": {}, "counter": 2}\n')
    plan = files.plan_undo(whole=True)
    assert isinstance(plan, PlannedUndo) and files.undo(plan) is None
    assert json.loads(own.read_text()) == {"mcpServers": {"a": {"command": "a"}}, "counter": 2}
    assert contents(files).keys() == {".mcp.json", ".vscode/mcp.json"}
    assert contents(files)[".vscode/mcp.json"] == VSCODE


def test_an_adoption_after_an_undo_is_taken_back_alone(files: ProjectFiles) -> None:
    start = adopt_by_name(files, "a")
    adopt_by_name(files, "b")
    assert undo(files) is None
    adopt_by_name(files, "b")
    assert undo(files) is None and undo(files) is None
    assert contents(files) == start


def test_an_undo_that_was_shown_before_another_change_is_refused(files: ProjectFiles) -> None:
    adopt_by_name(files, "a")
    plan = files.plan_undo()
    assert isinstance(plan, PlannedUndo)
    adopt_by_name(files, "b")
    before = contents(files)
    refusal = files.undo(plan)
    assert isinstance(refusal, Refusal) and refusal.reason == "changed_meanwhile"
    assert contents(files) == before


def test_records_of_two_projects_are_apart(files: ProjectFiles, tmp_path: Path) -> None:
    adopt(files)
    other = ProjectFiles(tmp_path / "other", files.state_dir)
    other.root.mkdir()
    refused = other.plan_undo()
    assert isinstance(refused, Refusal) and refused.reason == "no_undo"


USER_CLAUDE, CODEX, GEMINI = ".claude.json", ".codex/config.toml", ".gemini/settings.json"
OPENCODE, USER_VSCODE, CURSOR = (
    ".config/opencode/opencode.json",
    ".config/Code/User/mcp.json",
    ".cursor/mcp.json",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def user_files(home: Path) -> UserFiles:
    target = home / ".config/lm-tools-bridge/workspace.toml"
    return UserFiles(Machine({}, home, "linux"), home.parent / "state", str(target))


def put(home: Path, path: str, content: str | dict[str, Any]) -> Path:
    file = home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))
    return file


def planned_user_move(user_files: UserFiles) -> PlannedAdoption:
    found = user_files.plan()
    assert isinstance(found, PlannedAdoption), found
    return found


def adopt_user_files(user_files: UserFiles) -> Adoption:
    plan = planned_user_move(user_files)
    assert user_files.adopt(plan) is None
    return plan.adoption


def moved(user_files: UserFiles) -> list[dict[str, Any]]:
    mcp = tomllib.loads(Path(user_files.target).read_text())["mcp"]
    return [*mcp.get("stdio_servers", []), *mcp.get("remote_servers", [])]


def snapshot(home: Path) -> dict[Path, bytes]:
    return {one: one.read_bytes() for one in home.rglob("*") if one.is_file()}


@pytest.mark.parametrize(
    ("path", "container", "entry", "table"),
    [
        (USER_CLAUDE, "mcpServers", {"command": "x", "args": ["${A}"], "env": {"T": "s"}},
         {"command": ["x", "${A}"], "env": {"T": "s"}}),
        (GEMINI, "mcpServers", {"httpUrl": "https://a.example/$X", "headers": {"K": "${Y}"}, "includeTools": ["t"]},
         {"url": "https://a.example/${X}", "headers": {"K": "${Y}"}, "include": ["t"], "transport": "http"}),
        (GEMINI, "mcpServers", {"url": "https://a.example/sse"}, {"url": "https://a.example/sse", "transport": "sse"}),
        (OPENCODE, "mcp", {"type": "local", "command": ["x", "{env:A}"], "environment": {"T": "s"},
                           "enabled": False},
         {"command": ["x", "${A:-}"], "env": {"T": "s"}, "enabled": False}),
        (OPENCODE, "mcp", {"type": "remote", "url": "https://a.example/mcp", "headers": {"K": "v"}},
         {"url": "https://a.example/mcp", "headers": {"K": "v"}}),
        (USER_VSCODE, "servers", {"type": "stdio", "command": "~/x", "env": {"T": "${env:T}"}},
         {"command": ["~/x"], "env": {"T": "${env:T}"}}),
        (CURSOR, "mcpServers", {"url": "https://a.example/mcp"}, {"url": "https://a.example/mcp"}),
    ],
)  # fmt: skip
def test_entries_of_each_client_become_those_of_workspace_toml(
    user_files: UserFiles, home: Path, path: str, container: str, entry: Any, table: Any
) -> None:
    before = {"mine": 1, container: {"a": entry, "lm-tools-bridge": {"url": "http://127.0.0.1:47100/mcp"}}}
    file = put(home, path, before)
    bytes_before = snapshot(home)
    adoption = adopt_user_files(user_files)
    assert [one.name for one in adoption.moved] == ["a"]
    assert moved(user_files) == [{"namespace": "a", **table}]
    del before[container]["a"]
    assert json.loads(file.read_text()) == before
    assert Path(user_files.target).stat().st_mode & 0o077 == 0
    undo = user_files.plan_undo()
    assert isinstance(undo, PlannedUndo) and user_files.undo(undo) is None
    assert snapshot(home) == bytes_before


def test_a_server_of_codex_moves_with_its_comments_and_the_rest_stays(
    user_files: UserFiles, home: Path
) -> None:
    text = """# mine
model = "m"  # why

[mcp_servers.docs]
# the documents
command = "npx"
args = ["-y", "docs"]
required = true
tool_timeout_sec = 40
enabled_tools = ["get"]
[mcp_servers.docs.env]
TOKEN = "s"

[mcp_servers.web]
url = "https://a.example/mcp"
bearer_token_env_var = "WEB"
env_http_headers = { "X-User" = "USER" }

[tui] # last
"""
    file = put(home, CODEX, text)
    adopt_user_files(user_files)
    assert tomllib.loads(file.read_text()) == {"model": "m", "tui": {}}
    assert file.read_text().startswith('# mine\nmodel = "m"  # why\n')
    assert moved(user_files) == [
        {"namespace": "docs", "command": ["npx", "-y", "docs"], "env": {"TOKEN": "s"}, "include": ["get"],
         "timeout_s": 40},
        {"namespace": "web", "url": "https://a.example/mcp", "token_env": "WEB", "headers": {"X-User": "${USER}"}},
    ]  # fmt: skip
    assert "# the documents\n[[mcp.stdio_servers]]" in Path(user_files.target).read_text()
    undo = user_files.plan_undo()
    assert isinstance(undo, PlannedUndo) and user_files.undo(undo) is None
    assert file.read_text() == text


def test_addresses_of_a_private_network_stay_reachable(user_files: UserFiles, home: Path) -> None:
    hosts = {"a": "10.0.0.1", "b": "nas.local", "c": "intranet", "d": "localhost:80", "e": "a.example"}
    put(home, CURSOR, {"mcpServers": {name: {"url": f"http://{host}/mcp"} for name, host in hosts.items()}})
    adopt_user_files(user_files)
    assert [one["namespace"] for one in moved(user_files) if one.get("allow_private")] == [
        "a",
        "b",
        "c",
    ]


@pytest.mark.parametrize(
    ("path", "container", "entry", "reason"),
    [
        (OPENCODE, "mcp", {"type": "local", "command": ["x", "{file:~/key}"]}, "in opencode only"),
        (OPENCODE, "mcp", {"type": "local", "command": ["x", "${A}"]}, "means something else"),
        (GEMINI, "mcpServers", {"command": "x", "trust": True}, '"trust"'),
        (
            USER_VSCODE,
            "servers",
            {"command": "x", "args": ["${input:key}"]},
            "only VS Code has a value",
        ),
        (CURSOR, "mcpServers", {"command": "x", "args": ["${A}"]}, "means something else"),
    ],
)
def test_what_has_no_equal_stays_with_the_reason(
    user_files: UserFiles, home: Path, path: str, container: str, entry: Any, reason: str
) -> None:
    put(home, path, {container: {"a": entry}})
    adoption = planned_user_move(user_files).adoption
    assert adoption.changes == {}
    assert reason in str(adoption.left[0].reason)


def test_servers_for_one_project_of_claude_code_stay_with_that_project(
    user_files: UserFiles, home: Path
) -> None:
    docs, web = {"command": "docs"}, {"type": "http", "url": "https://a.example/mcp"}
    sections = {
        "/srv/a": {"mcpServers": {"docs": docs, "web": web}, "history": []},
        "/srv/b": {"mcpServers": {"docs": docs}},
        "/srv/c": {"mcpServers": {}},
    }
    file = put(home, USER_CLAUDE, {"mcpServers": {"web": web}, "projects": sections})
    adopt_user_files(user_files)
    assert moved(user_files) == [
        {"namespace": "docs", "command": ["docs"], "projects": ["/srv/a", "/srv/b"]},
        {"namespace": "web", "url": "https://a.example/mcp", "transport": "http"},
    ]
    left = json.loads(file.read_text())
    assert left["mcpServers"] == {} and left["projects"]["/srv/a"] == {"mcpServers": {}, "history": []}


def test_one_server_of_several_clients_moves_once(user_files: UserFiles, home: Path) -> None:
    put(home, USER_CLAUDE, {"mcpServers": {"docs": {"command": "npx", "args": ["docs"]}}})
    put(home, CODEX, '[mcp_servers.docs]\ncommand = "npx"\nargs = ["docs"]\n')
    put(home, CURSOR, {"mcpServers": {"docs": {"command": "other"}}})
    adoption = adopt_user_files(user_files)
    assert [one.file.client for one in adoption.moved] == ["Claude Code", "Codex"]
    assert "differs" in str(adoption.left[0].reason)
    assert len(moved(user_files)) == 1
