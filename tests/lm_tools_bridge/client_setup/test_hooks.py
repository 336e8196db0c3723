"""The hook of a client is added beside the user's own ones, brought up to date, removed and undone."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.client_setup.change import Unchanged, is_our_hook
from lm_tools_bridge.client_setup.clients import CLIENTS, Machine, client_named
from lm_tools_bridge.client_setup.entries import Endpoint
from lm_tools_bridge.client_setup.hooks import HOOKS, claude_hook, hook_of, with_hooks
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import ClientFiles, Planned

(CLAUDE,) = HOOKS
FORMATTER = {"matcher": "Write", "hooks": [{"type": "command", "command": "prettier --write"}]}


@pytest.fixture
def files(tmp_path: Path) -> ClientFiles:
    home = Path(os.path.realpath(tmp_path)) / "home"
    (home / ".claude").mkdir(parents=True)
    return ClientFiles(Machine({}, home, "linux"), tmp_path / "state", Endpoint(5, "/opt/my tools/lmtb"))


def settings(files: ClientFiles) -> Path:
    return files.machine.home / ".claude/settings.json"


def do(files: ClientFiles, planned: Planned | Unchanged | Refusal, *, undo: bool = False) -> Any:
    assert isinstance(planned, Planned), planned
    assert files.carry_out(CLAUDE, planned, undo=undo) is None
    path = settings(files)
    return json.loads(path.read_text()) if path.exists() else None


def test_it_is_added_removed_and_undone_in_a_file_that_was_not_there(files: ClientFiles) -> None:
    added = do(files, files.plan_addition(CLAUDE))
    assert added == {"hooks": {"PostToolUse": [claude_hook(files.endpoint)]}}
    (hook,) = added["hooks"]["PostToolUse"][0]["hooks"]
    assert hook["command"] == "'/opt/my tools/lmtb' hook post-edit"  # a shell runs it
    assert isinstance(files.plan_addition(CLAUDE), Unchanged)
    assert files.overview(CLAUDE).state == "current"
    assert do(files, files.plan_undo(CLAUDE), undo=True) is None
    do(files, files.plan_addition(CLAUDE))
    assert do(files, files.plan_removal(CLAUDE)) == {}


def test_the_users_own_hooks_and_layout_stay(files: ClientFiles) -> None:
    before = json.dumps({"model": "x", "hooks": {"PostToolUse": [FORMATTER], "Stop": []}}, indent=4)
    settings(files).write_text(before)
    added = do(files, files.plan_addition(CLAUDE))
    assert added["hooks"]["PostToolUse"][0] == FORMATTER
    assert is_our_hook(added["hooks"]["PostToolUse"][1])
    assert '\n    "model": "x"' in settings(files).read_text()
    assert do(files, files.plan_removal(CLAUDE)) == json.loads(before)
    do(files, files.plan_addition(CLAUDE))
    do(files, files.plan_undo(CLAUDE), undo=True)
    assert json.loads(settings(files).read_text()) == json.loads(before)


def test_what_others_wrote_since_stays_when_it_is_undone(files: ClientFiles) -> None:
    added = do(files, files.plan_addition(CLAUDE))
    settings(files).write_text(
        json.dumps(
            {**added, "model": "y", "hooks": {"PostToolUse": [*added["hooks"]["PostToolUse"], FORMATTER]}}
        )
    )
    assert do(files, files.plan_undo(CLAUDE), undo=True) == {
        "model": "y",
        "hooks": {"PostToolUse": [FORMATTER]},
    }


def test_a_program_that_moved_is_brought_up_to_date_and_what_the_user_chose_stays(files: ClientFiles) -> None:
    old = claude_hook(Endpoint(5, "/old/lmtb"))
    mine = {**old, "matcher": "Write", "hooks": [{**old["hooks"][0], "timeout": 99}]}
    settings(files).write_text(json.dumps({"hooks": {"PostToolUse": [FORMATTER, mine]}}))
    assert files.overview(CLAUDE).state == "outdated"
    _, updated = do(files, files.plan_update(CLAUDE))["hooks"]["PostToolUse"]
    new = claude_hook(files.endpoint)
    assert updated == {**mine, "hooks": [{**new["hooks"][0], "timeout": 99}]}
    assert files.overview(CLAUDE).state == "current"


@pytest.mark.parametrize("content", ['{"hooks": {"PostToolUse": {}}}', '{"hooks": 3}', "{", "[]"])
def test_a_file_in_another_form_is_refused(files: ClientFiles, content: str) -> None:
    settings(files).write_text(content)
    assert isinstance(files.plan_addition(CLAUDE), Refusal)
    assert settings(files).read_text() == content


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("lmtb hook post-edit", True),
        ("/opt/lmtb hook post-edit", True),
        ("'/a b/lm-tools-bridge' hook post-edit", True),
        ("lmtb hook post-edit; rm -r x", False),
        ("lmtb call x", False),
        ("'", False),
        (7, False),
    ],
)
def test_only_what_runs_our_verb_alone_is_ours(command: object, ours: bool) -> None:
    assert is_our_hook({"matcher": "Write", "hooks": [{"type": "command", "command": command}]}) is ours
    both = [{"command": command}, {"command": "prettier"}]
    assert not is_our_hook({"hooks": both})


def test_only_clients_with_hooks_have_a_second_file() -> None:
    claude = client_named("claude-code")
    assert claude is not None
    assert with_hooks([claude]) == [claude, CLAUDE]
    assert [client.id for client in CLIENTS if hook_of(client)] == ["claude-code"]
    assert CLAUDE not in CLIENTS
