"""Addresses in a project's `providers.json` need trust, each of them as it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workspace_server.command.trust.provider_item import provider_item
from workspace_server.trust.item import TrustItem


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
