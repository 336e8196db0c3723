"""Tests of `lmtb add`: what it shows, asks, writes and refuses. npm and uv are played."""

from __future__ import annotations

import asyncio
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.published_servers import add_verb
from lm_tools_bridge.published_servers.package_index import PublishedPackage
from lm_tools_bridge.published_servers.server_names import PackageName, Refusal, RegistryName, SearchWord
from lm_tools_bridge.published_servers.server_registry import ServerRegistry
from manager.cli.output.manager_access import user_paths
from workspace_server.secrets.store import open_store

CANARY = "canary-value"
DOCUMENT: dict[str, Any] = {
    "name": "io.example/weather",
    "version": "1.2.3",
    "description": "Tells the weather",
    "repository": {"url": "https://code.example/weather"},
    "packages": [
        {
            "registryType": "npm",
            "identifier": "@example/weather",
            "version": "1.2.3",
            "packageArguments": [
                {"type": "named", "name": "--units", "isRequired": True, "choices": ["c", "f"]}
            ],
            "environmentVariables": [
                {"name": "API_KEY", "isSecret": True, "isRequired": True, "description": "from its page"},
                {"name": "SPARE_KEY", "isSecret": True},
            ],
        }
    ],
}
Publish = Callable[..., None]


@pytest.fixture
def project(environ: dict[str, str], tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    return root


@pytest.fixture(autouse=True)
def publish(monkeypatch: pytest.MonkeyPatch) -> Publish:
    """Decides what the indexes answer; without that, every package has the version that was asked for, else 9.0.0."""

    def put(**members: str) -> None:
        def look_up(package: PackageName) -> PublishedPackage | Refusal:
            if package.name == "missing":
                return Refusal("unknown_package", "npm has no package missing", "check its name")
            exact = PackageName(package.index, package.name, package.version or "9.0.0")
            return PublishedPackage(exact, **members)

        monkeypatch.setattr(add_verb, "look_up", look_up)

    put()
    return put


def file_of(project: Path) -> Path:
    return project / ".lm-tools-bridge" / "workspace.toml"


def servers(file: Path) -> list[dict[str, Any]]:
    return list(tomllib.loads(file.read_text())["mcp"]["stdio_servers"])


def described(folder: Path, **members: Any) -> str:
    file = folder / "server.json"
    file.write_text(json.dumps({**DOCUMENT, **members}))
    return str(file)


def secret(key: str) -> str | None:
    return asyncio.run(open_store(user_paths().state_dir, os.environ).get(key))


def test_a_package_is_written_at_its_version_after_what_it_is_was_shown(
    run: Any, project: Path, publish: Publish
) -> None:
    publish(publisher="someone <a@b.example>", warning="no longer maintained")
    result = run("add", "npm:@example/weather", "--yes", "--cwd", str(project))
    assert result.exit_code == 0, result.output
    assert servers(file_of(project)) == [
        {"namespace": "weather", "command": ["npx", "-y", "@example/weather@9.0.0"]}
    ]
    words = " ".join(result.stdout.split())
    assert "publisher someone <a@b.example>" in words
    assert "no longer maintained" in words
    assert "runs npx -y @example/weather@9.0.0" in words
    assert f"lmtb trust {project} weather" in words


def test_your_own_file_counts_in_all_projects_and_needs_no_trust(run: Any, project: Path) -> None:
    result = run("add", "pypi:mcp-server-time@2.0", "--user", "--yes")
    assert result.exit_code == 0, result.output
    file = user_paths().config_dir / "workspace.toml"
    assert servers(file) == [{"namespace": "time", "command": ["uvx", "mcp-server-time@2.0"]}]
    assert file.stat().st_mode & 0o077 == 0
    assert "trust" not in result.stdout
    assert not file_of(project).exists()


def test_another_version_changes_the_entry_and_the_same_one_nothing(run: Any, project: Path) -> None:
    run("add", "npm:memory@1.0.0", "--yes", "--cwd", str(project))
    text = file_of(project).read_text() + "timeout_s = 5\n"
    file_of(project).write_text(text)
    assert run("add", "npm:memory", "--yes", "--cwd", str(project)).exit_code == 0
    assert file_of(project).read_text() == text.replace("1.0.0", "9.0.0")
    again = json.loads(run("add", "npm:memory", "--yes", "--json", "--cwd", str(project)).stdout)
    assert (again["result"], again["diff"]) == ("unchanged", [])


def test_an_address_becomes_a_remote_server_under_the_name_that_was_chosen(run: Any, project: Path) -> None:
    result = run("add", "https://mcp.example.com/mcp", "--as", "docs", "--yes", "--cwd", str(project))
    assert result.exit_code == 0, result.output
    (server,) = tomllib.loads(file_of(project).read_text())["mcp"]["remote_servers"]
    assert server == {"namespace": "docs", "url": "https://mcp.example.com/mcp"}


def test_a_description_names_what_it_needs_and_nothing_is_written_without(
    run: Any, project: Path, tmp_path: Path
) -> None:
    missing = run("add", described(tmp_path), "--yes", "--json", "--cwd", str(project))
    assert missing.exit_code == 1
    assert json.loads(missing.stdout)["error"]["reason"] == "missing_values"
    assert not file_of(project).exists()
    bad = run("add", described(tmp_path), "--set", "--units=k", "--yes", "--cwd", str(project))
    assert "has to be one of c, f" in bad.output
    unknown = run("add", described(tmp_path), "--set", "API_KEY=x", "--yes", "--cwd", str(project))
    assert "it needs no value 'API_KEY'" in unknown.output
    done = run("add", described(tmp_path), "--set", "--units=c", "--yes", "--cwd", str(project))
    assert done.exit_code == 0, done.output
    assert servers(file_of(project)) == [
        {
            "namespace": "weather",
            "command": ["npx", "-y", "@example/weather@1.2.3", "--units", "c"],
            "env_secrets": {"API_KEY": "weather.API_KEY"},
        }
    ]
    assert "store its secret: lmtb secrets set weather.API_KEY" in done.output


def test_a_person_gives_values_once_and_secrets_go_to_the_store_only(
    run: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_verb, "_is_person_there", lambda: True)
    monkeypatch.setattr(add_verb, "confirm", lambda *_, **__: True)
    options = ("--secret", "SPARE_KEY", "--cwd", str(project))
    result = run("add", described(tmp_path), *options, input=f"f\n{CANARY}\nspare-{CANARY}\n")
    assert result.exit_code == 0, result.output
    assert CANARY not in result.output
    assert CANARY not in file_of(project).read_text()
    assert (secret("weather.API_KEY"), secret("weather.SPARE_KEY")) == (CANARY, f"spare-{CANARY}")
    (server,) = servers(file_of(project))
    assert set(server["env_secrets"]) == {"API_KEY", "SPARE_KEY"}
    assert "Next step: store" not in result.output
    lines = result.output.splitlines()
    publisher = next(number for number, line in enumerate(lines) if line.startswith("publisher"))
    assert publisher < next(number for number, line in enumerate(lines) if "not shown" in line)


def test_a_secret_that_is_typed_for_an_entry_that_is_there_is_stored(
    run: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--set", "--units=c", "--cwd", str(project))
    assert run("add", described(tmp_path), *options, "--yes").exit_code == 0
    assert secret("weather.API_KEY") is None
    monkeypatch.setattr(add_verb, "_is_person_there", lambda: True)
    result = run("add", described(tmp_path), *options, input=f"{CANARY}\n")
    assert result.exit_code == 0, result.output
    assert "has this server already" in result.output
    assert secret("weather.API_KEY") == CANARY


def test_declined_or_planned_nothing_is_written_or_stored(
    run: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(add_verb, "_is_person_there", lambda: True)
    monkeypatch.setattr(add_verb, "confirm", lambda *_, **__: False)
    declined = run("add", described(tmp_path), "--cwd", str(project), input=f"c\n{CANARY}\n")
    planned = run("add", described(tmp_path), "--set", "--units=c", "--dry-run", "--cwd", str(project))
    assert "nothing was written" in declined.stdout
    assert "+namespace" in planned.stdout
    assert secret("weather.API_KEY") is None
    assert not file_of(project).parent.exists()


def test_without_a_terminal_nothing_is_written_unasked(run: Any, project: Path) -> None:
    result = run("add", "npm:memory", "--json", "--cwd", str(project))
    assert json.loads(result.stdout)["error"]["reason"] == "not_confirmed"
    assert not file_of(project).exists()


@pytest.mark.parametrize("claim", ["io.other/weather", "io.example/weather\u202e"])
def test_a_package_that_says_it_is_another_server_is_refused(
    run: Any, project: Path, tmp_path: Path, publish: Publish, claim: str
) -> None:
    publish(server_name=claim)
    result = run("add", described(tmp_path), "--set", "--units=c", "--yes", "--cwd", str(project))
    assert result.exit_code == 1
    assert "says that it is" in result.output
    assert "\u202e" not in result.output
    assert not file_of(project).exists()


def test_a_package_that_does_not_say_which_server_it_is_is_told(
    run: Any, project: Path, tmp_path: Path
) -> None:
    result = run("add", described(tmp_path), "--set", "--units=c", "--dry-run", "--cwd", str(project))
    assert "does not say that it is io.example/weather" in " ".join(result.stdout.split())


def test_control_characters_of_a_description_never_reach_the_terminal(
    run: Any, project: Path, tmp_path: Path
) -> None:
    hostile = described(tmp_path, description="\x1b[2J\u202ewipe", title="\x9b")
    result = run("add", hostile, "--set", "--units=c", "--dry-run", "--cwd", str(project))
    assert result.exit_code == 0, result.output
    assert not {"\x1b", "\x9b", "\u202e"} & set(result.output)


def test_another_server_of_the_name_stays(run: Any, project: Path) -> None:
    run("add", "npm:memory@1.0.0", "--yes", "--cwd", str(project))
    before = file_of(project).read_bytes()
    result = run("add", "npm:@evil/memory", "--as", "memory", "--yes", "--cwd", str(project))
    assert (result.exit_code, file_of(project).read_bytes()) == (1, before)
    assert "choose another name with --as" in result.output


def test_a_link_in_a_project_is_not_written_through(run: Any, project: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (project / ".lm-tools-bridge").symlink_to(own)
    assert run("add", "npm:memory", "--yes", "--cwd", str(project)).exit_code == 1
    assert not [*own.iterdir()]


@pytest.mark.parametrize("verb", [("add", "npm:memory", "--yes"), ("outdated",)])
def test_a_folder_that_is_missing_or_elsewhere_is_neither_made_nor_read(
    run: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for cwd, reason in ((str(tmp_path / "none"), "invalid_cwd"), ("ssh://build/srv/app", "on_another_host")):
        result = run(*verb, "--json", "--cwd", cwd)
        assert (result.exit_code, json.loads(result.stdout)["error"]["reason"]) == (1, reason)
    assert not (tmp_path / "none").exists()
    assert not (tmp_path / "ssh:").exists()


def test_a_registry_is_asked_for_full_names_and_words_only_list(
    run: Any, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def search(registry: ServerRegistry, word: SearchWord) -> object:
        asked.append((registry.address, word))
        return [add_verb._succeed(add_verb._read_file(Path(described(tmp_path))))]

    def server(registry: ServerRegistry, name: RegistryName) -> object:
        asked.append((registry.address, name))
        return Refusal("unknown_server", "there is none", "search")

    monkeypatch.setattr(ServerRegistry, "search", search)
    monkeypatch.setattr(ServerRegistry, "server", server)
    monkeypatch.setenv("MCP_REGISTRY_URL", "https://registry.example/")
    listed = run("add", "weather", "--yes", "--cwd", str(project))
    assert (listed.exit_code, "io.example/weather" in listed.stdout) == (1, True)
    assert run("add", "io.example/weather@1.0.0", "--yes", "--cwd", str(project)).exit_code == 1
    address = "https://registry.example"
    assert asked == [(address, SearchWord("weather")), (address, RegistryName("io.example/weather", "1.0.0"))]
    assert not file_of(project).exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("npm:missing",), "unknown_package"),
        (("npm:--eval",), "bad_name"),
        (("npm:a@latest",), "bad_version"),
        (("npm:a", "--as", "a b"), "bad_namespace"),
        (("./none.json",), "unreadable"),
        (("weather", "--registry", "http://registry.example"), "bad_registry"),
    ],
)
def test_what_cannot_be_added_is_refused_by_a_word(
    run: Any, project: Path, words: tuple[str, ...], reason: str
) -> None:
    result = run("add", *words, "--yes", "--json", "--cwd", str(project))
    assert (result.exit_code, json.loads(result.stdout)["error"]["reason"]) == (1, reason)
    assert not file_of(project).exists()
