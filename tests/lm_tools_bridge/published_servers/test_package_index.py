"""Tests of asking npm and uv: how they are run, and answers about something else. They are played by scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lm_tools_bridge.published_servers.package_index import PublishedPackage, look_up
from lm_tools_bridge.published_servers.server_names import PackageName, Refusal

Play = Callable[..., Path]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Puts a program on the PATH that writes down how it was run, and answers."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(name: str, output: str, code: int = 0, errors: str = "") -> Path:
        (folder / "output").write_text(output)
        (folder / "errors").write_text(errors)
        script = (
            "#!/bin/sh\n"
            f'{{ pwd; ls -A; printf "%s\\n" "$@"; }} > {folder}/asked\n'
            f"cat > {folder}/input\ncat {folder}/output\ncat {folder}/errors >&2\nexit {code}\n"
        )
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
        return folder

    return put


def refused(package: PackageName) -> str:
    answer = look_up(package)
    assert isinstance(answer, Refusal)
    assert answer.message.isprintable()
    return answer.message


def test_npm_is_asked_in_an_empty_folder_for_fields_and_nothing_else(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {
        "name": "@a/b",
        "version": "1.2.3",
        "mcpName": "io.a/b",
        "_npmUser": "someone <a@b.example>",
        "deprecated": "old",
    }
    folder = play("npm", json.dumps(members))
    monkeypatch.chdir(folder)
    assert look_up(PackageName("npm", "@a/b")) == PublishedPackage(
        PackageName("npm", "@a/b", "1.2.3"), "someone <a@b.example>", "io.a/b", "old"
    )
    place, *words = (folder / "asked").read_text().splitlines()
    assert place != str(folder)
    assert words[:6] == ["view", "--json", "--loglevel=error", "--", "@a/b", "name"]


def test_uv_builds_nothing_and_gets_the_requirement_on_its_input(play: Play) -> None:
    folder = play("uv", "mcp-server-time==2025.7.1\n")
    answer = look_up(PackageName("pypi", "mcp_server_time", "2025.7.1"))
    assert answer == PublishedPackage(PackageName("pypi", "mcp_server_time", "2025.7.1"))
    assert (folder / "input").read_text() == "mcp_server_time==2025.7.1"
    words = (folder / "asked").read_text().splitlines()[1:]
    assert {"--no-build", "--no-deps", "--no-python-downloads"} < set(words)
    assert words[-1] == "-"


def test_who_may_publish_is_told_where_npm_does_not_say_who_did(play: Play) -> None:
    members = {"name": "b", "version": "1.2.3", "maintainers": [{"name": "first"}, "second <x@y>"]}
    play("npm", json.dumps(members))
    answer = look_up(PackageName("npm", "b"))
    assert isinstance(answer, PublishedPackage)
    assert answer.publisher == "first"


@pytest.mark.parametrize(
    "output",
    [
        "", "[]", "{", '{"name": "evil", "version": "1.2.3"}', '{"name": "b"}', '{"name": "b", "version": "latest"}',
        '{"name": "b", "version": "1.2.3 --eval"}', '{"name": ["b"], "version": "1.2.3"}', "[" * 100_000,
    ],
    ids=lambda output: output[:40],
)  # fmt: skip
def test_an_answer_of_npm_about_something_else_is_refused(play: Play, output: str) -> None:
    play("npm", output)
    assert refused(PackageName("npm", "b")).startswith(("npm has no package b", "'1.2.3", "'latest'"))


@pytest.mark.parametrize("output", ["", "evil==1.0", "x", "x==", "x==1.0; y", "x==1.0\nevil==2.0", "x==2.0"])
def test_an_answer_of_uv_about_something_else_is_refused(play: Play, output: str) -> None:
    play("uv", output)
    assert refused(PackageName("pypi", "x", "1.0"))


def test_a_failure_says_why_and_a_missing_program_what_to_install(
    play: Play, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    play("npm", "", 1, "npm error code E404\nnpm error 404 Not Found - GET /b\x1b[2J\n")
    assert "npm says: npm error 404 Not Found - GET /b" in refused(PackageName("npm", "b"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for package, program in ((PackageName("npm", "b"), "npm"), (PackageName("pypi", "b"), "uv")):
        assert refused(package).startswith(f"{program} is not on your PATH")
