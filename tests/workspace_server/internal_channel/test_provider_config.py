"""Provider configuration is read and changed in two files; their other content is kept."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from workspace_server.internal_channel.provider_config import (
    ProviderConfig,
    ProviderConfigError,
    provider_item,
)
from workspace_server.trust.item import TrustItem


@pytest.fixture
def config(tmp_path: Path) -> ProviderConfig:
    (tmp_path / "project").mkdir()
    return ProviderConfig(tmp_path / "config", tmp_path / "project", tmp_path / "locks")


def test_without_configuration_the_list_is_empty(config: ProviderConfig) -> None:
    assert config.providers("user") == config.providers("workspace") == []


def test_scopes_are_not_merged_and_defaults_are_filled_in(config: ProviderConfig, tmp_path: Path) -> None:
    config.change("user", "OpenAI", {"models": ["a"], "apiBase": "https://x"})
    config.change("workspace", "Local", {"enabled": False})
    user, workspace = (
        tmp_path / "config" / "providers.json",
        tmp_path / "project/.lm-tools-bridge/providers.json",
    )
    openai = {
        "name": "OpenAI", "enabled": True, "models": ["a"], "apiBase": "https://x", "source": "user",
        "sourceDetail": str(user),
    }  # fmt: skip
    local = {
        "name": "Local", "enabled": False, "models": [], "source": "workspace", "sourceDetail": str(workspace),
    }  # fmt: skip
    assert config.providers("user") == config.providers("user", "openai") == [openai]
    assert config.providers("workspace") == [local]
    assert config.providers("user", "local") == []
    assert stat.S_IMODE(user.stat().st_mode) == 0o600


def test_change_finds_the_name_in_any_case_and_keeps_every_other_member(
    config: ProviderConfig, tmp_path: Path
) -> None:
    file = tmp_path / "config" / "providers.json"
    file.parent.mkdir()
    big = 123456789012345678901234567890
    entry = {"name": "OpenAI", "models": ["a"], "organisation": "mine", "big": big}
    file.write_text(json.dumps({"$schema": "s", "providers": [{"name": "first"}, entry, "odd"]}))
    config.change("user", "openai", {"enabled": False})
    config.change("user", "third", {})
    assert json.loads(file.read_text()) == {
        "$schema": "s",
        "providers": [
            {"name": "first"},
            {**entry, "enabled": False},
            "odd",
            {"name": "third", "enabled": True, "models": []},
        ],
    }


@pytest.mark.parametrize("content", ["{", "[]", '{"providers": {}}', "\xff", "[" * 2000])
def test_an_invalid_file_is_reported_and_unchanged(
    config: ProviderConfig, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "config" / "providers.json"
    file.parent.mkdir()
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(ProviderConfigError, match=r"providers\.json"):
        config.providers("user")
    with pytest.raises(ProviderConfigError, match=r"providers\.json"):
        config.change("user", "a", {})
    assert file.read_bytes() == content.encode("latin-1")


def test_links_of_the_user_are_followed_and_those_of_a_workspace_are_not(
    config: ProviderConfig, tmp_path: Path
) -> None:
    """A project could otherwise read and overwrite any file of the user's."""
    elsewhere = tmp_path / "dotfiles.json"
    elsewhere.write_text('{"providers":[{"name":"mine"}]}')
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "providers.json").symlink_to(elsewhere)
    config.change("user", "other", {})
    assert (tmp_path / "config" / "providers.json").is_symlink()
    assert [one["name"] for one in config.providers("user")] == ["mine", "other"]
    before = elsewhere.read_bytes()
    folder = tmp_path / "project" / ".lm-tools-bridge"
    folder.mkdir()
    (folder / "providers.json").symlink_to(elsewhere)
    with pytest.raises(ProviderConfigError, match="link"):
        config.providers("workspace")
    (folder / "providers.json").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    for attempt in (lambda: config.providers("workspace"), lambda: config.change("workspace", "a", {})):
        with pytest.raises(ProviderConfigError, match="link"):
            attempt()
    assert elsewhere.read_bytes() == before
    assert not (tmp_path / "providers.json").exists()


def test_without_a_workspace_there_is_nothing_to_change(tmp_path: Path) -> None:
    config = ProviderConfig(tmp_path / "config", None, tmp_path / "locks")
    assert config.providers("workspace") == []
    with pytest.raises(ProviderConfigError, match="no workspace"):
        config.change("workspace", "a", {})


def test_concurrent_changes_lose_nothing(tmp_path: Path) -> None:
    configs = [ProviderConfig(tmp_path / "config", None, tmp_path / "locks") for _ in range(4)]
    threads = [
        threading.Thread(target=configs[number % 4].change, args=("user", f"p{number}", {}))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert {one["name"] for one in configs[0].providers("user")} == {f"p{number}" for number in range(16)}


def item_of(root: Path, *entries: object) -> TrustItem | None:
    file = root / ".lm-tools-bridge" / "providers.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps({"providers": entries}))
    return provider_item(root)


OURS = {"name": "openai", "apiBase": "https://ours.example/v1"}


def test_an_address_is_shown_and_pinned(tmp_path: Path) -> None:
    item = item_of(tmp_path, OURS)
    assert item is not None
    assert (item.key, item.title) == ("providers", "model providers: openai at https://ours.example/v1")


@pytest.mark.parametrize(
    "entries",
    [
        [{**OURS, "apiBase": "https://theirs.example/v1"}],
        [{"name": "openai", "apiBase": "https://theirs.example/v1"}, OURS],
        [OURS, {"name": "OpenAI", "apiBase": "https://theirs.example/v1"}],
        [OURS, {"name": "gemini", "enabled": True}, {"name": "gemini"}],
    ],
)
def test_another_address_needs_trust_again(tmp_path: Path, entries: list[object]) -> None:
    before, after = item_of(tmp_path, OURS), item_of(tmp_path, *entries)
    assert before is not None
    assert after is not None
    assert before.digest() != after.digest()


def test_a_password_in_an_address_is_not_shown(tmp_path: Path) -> None:
    item = item_of(tmp_path, {"name": "openai", "apiBase": "https://me:canary-4711@ours.example/v1"})
    assert item is not None
    assert "canary" not in item.title + str(item.facts)


@pytest.mark.parametrize(
    "entry", [{"name": "openai", "models": ["small"]}, {"name": "openai", "enabled": False}]
)
def test_models_and_restrictions_need_no_trust(tmp_path: Path, entry: object) -> None:
    assert item_of(tmp_path, entry) is None


def test_a_file_that_cannot_be_used_needs_no_trust(tmp_path: Path) -> None:
    (tmp_path / ".lm-tools-bridge").mkdir()
    (tmp_path / ".lm-tools-bridge" / "providers.json").write_text("{")
    assert provider_item(tmp_path) is None
