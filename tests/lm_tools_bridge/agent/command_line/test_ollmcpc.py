"""The configuration of ollmcpc is taken over."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.agent.command_line.ollmcpc import NotReadable, read_ollmcpc
from lm_tools_bridge.agent.settings.workspace_file import StdioServer


def test_settings_servers_and_key_are_read() -> None:
    found = read_ollmcpc(
        json.dumps(
            {
                "default_provider": "Gemini",
                "ollama_model": "qwen",
                "gemini_model": "flash",
                "gemini_api_key": "canary",
                "human_in_loop": False,
                "servers": [
                    {"name": "files", "command": "npx -y 'my server'", "enabled": True},
                    {"name": "off", "command": "x", "enabled": False},
                ],
            }
        ).encode()
    )
    assert found.changes == {
        ("default_provider",): "gemini",
        ("model", "ollama"): "qwen",
        ("model", "gemini"): "flash",
        ("human_in_loop",): False,
    }
    assert found.servers == (
        StdioServer("files", ("npx", "-y", "my server"), True),
        StdioServer("off", ("x",), False),
    )
    assert found.keys == {"gemini": "canary"}
    assert "canary" not in repr(found)


def test_asking_is_not_switched_off_by_a_member_of_a_server() -> None:
    entry = {"name": "x", "command": "y", "human_in_loop": False}
    assert read_ollmcpc(json.dumps({"servers": [entry]}).encode()).changes == {}


@pytest.mark.parametrize(
    "entry", [{"command": "x"}, {"name": "x"}, {"name": "", "command": "x"}, {"name": "x", "command": " "}, 3,
              {"name": "x", "command": "'open"}],
)  # fmt: skip
def test_entries_that_cannot_be_used_are_skipped_with_a_warning(entry: object) -> None:
    found = read_ollmcpc(json.dumps({"servers": [entry, {"name": "good", "command": "run"}]}).encode())
    assert [server.namespace for server in found.servers] == ["good"]
    assert len(found.warnings) == 1


def test_a_word_for_true_or_false_is_not_guessed() -> None:
    found = read_ollmcpc(b'{"human_in_loop": "false"}')
    assert found.changes == {}
    assert found.warnings


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(NotReadable):
        read_ollmcpc(content)
