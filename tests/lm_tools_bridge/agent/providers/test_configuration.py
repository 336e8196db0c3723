"""Which providers there are, from the user's and the project's files, and where they are."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings, ProviderEntry
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.providers.addresses import AzureAddress, address, azure
from lm_tools_bridge.agent.providers.configuration import configured
from lm_tools_bridge.agent.providers.factory import make_provider
from support.clients.model_replies import all_keys, ask
from support.servers.models.formats.steps import say
from support.servers.models.model_server import model_server


def write(folder: Path, *providers: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "providers.json").write_text(json.dumps({"providers": providers}))
    return folder


def project(root: Path, *providers: dict[str, Any]) -> Path:
    write(root / ".lm-tools-bridge", *providers)
    return root


def digest_of(root: Path) -> str:
    """What `lmtb trust` says of the file of a project."""
    content = (root / ".lm-tools-bridge/providers.json").read_bytes()
    return "sha256:" + hashlib.sha256(content).hexdigest()


def test_the_known_providers_are_there_without_any_file(tmp_path: Path) -> None:
    found = configured(AgentSettings(), tmp_path, tmp_path)
    assert found.offered() == ("ollama", "openai", "azure", "anthropic", "gemini", "mistral", "openrouter")
    assert found.problems == ()


def test_files_are_merged_by_name_in_any_case_and_a_trusted_project_wins(tmp_path: Path) -> None:
    user = write(
        tmp_path / "config",
        {"name": "OpenAI", "models": ["big"], "apiBase": "http://user/v1"},
        {"name": "mine", "apiBase": "http://mine/v1"},
    )
    root = project(
        tmp_path / "project", {"name": "openai", "models": ["small"], "apiBase": "http://project/v1"}
    )
    found = configured(AgentSettings(), user, root, trusted=True, trusted_content=digest_of(root)).providers
    assert (found["openai"].models, found["openai"].api_base) == (("small",), "http://project/v1")
    assert (found["openai"].source, found["openai"].source_detail) == (
        "workspace",
        str(root / ".lm-tools-bridge/providers.json"),
    )
    assert (found["mine"].api_base, found["mine"].source) == ("http://mine/v1", "user")
    assert found["gemini"].source == "built-in"


@pytest.mark.parametrize("text", ["ev\x1b[31mil", "a\nknown: b", "x\u202ey", "a\r", "n" * 101])
def test_a_name_that_could_forge_a_line_is_left_out_and_told(tmp_path: Path, text: str) -> None:
    root = project(tmp_path, {"name": text, "models": ["m"]}, {"name": "mine", "models": [text[:9], "good"]})
    found = configured(AgentSettings(), None, root)
    assert text.lower() not in found.providers
    assert [name for name in found.providers["mine"].models if not name.isprintable()] == []
    assert "a provider is left out" in found.problems[0]


def test_a_problem_of_a_folder_with_any_name_is_one_line(tmp_path: Path) -> None:
    root = tmp_path / "a\nwarning: run this\x1b[2J"
    project(root, {"name": "mine", "apiBase": "http://elsewhere"})
    (problem,) = configured(AgentSettings(), None, root, trusted=False).problems
    assert problem.isprintable()


def test_the_address_of_a_project_that_is_not_trusted_is_ignored(tmp_path: Path) -> None:
    """It would receive the user's key."""
    user = write(tmp_path / "config", {"name": "openai", "apiBase": "http://user/v1"})
    root = project(
        tmp_path / "project",
        {"name": "OPENAI", "apiBase": "http://evil/v1", "models": ["small"]},
        {"name": "anthropic", "apiBase": "http://evil"},
    )
    found = configured(AgentSettings(), user, root, trusted=False)
    assert found.providers["openai"].api_base == "http://user/v1"
    assert found.providers["openai"].models == ("small",)
    assert found.providers["anthropic"].api_base is None
    file = root / ".lm-tools-bridge/providers.json"
    assert found.problems[0] == (
        f"{file}: apiBase of openai is ignored, since the file is not trusted; next step: lmtb trust {root}"
    )
    assert configured(AgentSettings(), user, root).problems == (), "what is not known yet is not told"
    assert len(found.problems) == 2


def test_disabled_providers_are_not_offered(tmp_path: Path) -> None:
    user = write(
        tmp_path / "config", {"name": "openai", "enabled": False}, {"name": "gemini", "enabled": False}
    )
    root = project(
        tmp_path / "project", {"name": "openai", "enabled": True}, {"name": "mistral", "enabled": False}
    )
    settings = AgentSettings(providers={"azure": ProviderEntry(disabled=True)})
    trusted = configured(settings, user, root, trusted=True, trusted_content=digest_of(root)).offered()
    assert trusted == ("ollama", "openai", "anthropic", "openrouter")
    # a project cannot enable what the user disabled before the user trusts it
    assert "openai" not in configured(settings, user, root, trusted=False).offered()


def test_the_agents_own_settings_take_the_place_of_the_users_file(tmp_path: Path) -> None:
    user = write(tmp_path / "config", {"name": "local", "apiBase": "http://file/v1", "models": ["m"]})
    settings = AgentSettings(
        providers={"Local": ProviderEntry(api_base="http://settings/v1", key_name="MY_KEY")}
    )
    found = configured(settings, user).providers["local"]
    assert (found.api_base, found.key_name, found.models, found.kind) == (
        "http://settings/v1",
        "MY_KEY",
        ("m",),
        "openai",
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{", "providers.json, line 1, column 2: the text ends too early"), ("[]", 'is not a JSON object with an array "providers"; correct it'), ('{"providers": 3}', 'an array "providers"')],
)  # fmt: skip
def test_a_wrong_file_is_told_and_the_rest_counts(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "providers.json").write_text(content)
    found = configured(AgentSettings(), tmp_path)
    assert problem in found.problems[0]
    assert "ollama" in found.offered()


def test_entries_of_another_form_are_passed_over(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"models": ["x"]},
        {"name": 3},
        {"name": "openai", "models": ["a", 3], "apiBase": 7, "enabled": "no"},
    )
    found = configured(AgentSettings(), tmp_path)
    assert found.providers["openai"].models == ("a",)
    assert "openai" in found.offered()


def test_an_address_that_changed_after_trust_was_asked_for_is_ignored(tmp_path: Path) -> None:
    """A program of the project may write the file between the answer of `lmtb trust` and the reading."""
    root = project(tmp_path, {"name": "openai", "apiBase": "http://trusted/v1"})
    answered = digest_of(root)
    assert (
        configured(AgentSettings(), None, root, trusted=True, trusted_content=answered)
        .providers["openai"]
        .api_base
    )
    project(tmp_path, {"name": "openai", "apiBase": "http://thief/v1"})
    for content in (answered, None):
        found = configured(AgentSettings(), None, root, trusted=True, trusted_content=content)
        assert found.providers["openai"].api_base is None


def test_links_in_a_project_are_not_followed(tmp_path: Path) -> None:
    real = write(tmp_path / "elsewhere", {"name": "openai", "models": ["x"]})
    (tmp_path / "project").mkdir()
    (tmp_path / "project/.lm-tools-bridge").symlink_to(real)
    found = configured(AgentSettings(), None, tmp_path / "project", trusted=True)
    assert "is a symbolic link" in found.problems[0]
    (tmp_path / "other/.lm-tools-bridge").mkdir(parents=True)
    os.symlink(real / "providers.json", tmp_path / "other/.lm-tools-bridge/providers.json")
    assert configured(AgentSettings(), None, tmp_path / "other", trusted=True).problems


@pytest.mark.parametrize(
    ("name", "kind", "given", "environ", "found"),
    [
        ("ollama", "ollama", None, {}, "http://localhost:11434"),
        ("ollama", "ollama", None, {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434"),
        ("ollama", "ollama", None, {"OLLAMA_HOST": ":8080"}, "http://127.0.0.1:8080"),
        ("ollama", "ollama", None, {"OLLAMA_HOST": "box:9"}, "http://box:9"),
        ("ollama", "ollama", None, {"OLLAMA_HOST": "https://box/ollama/"}, "https://box/ollama"),
        ("ollama", "ollama", "http://[::1]:5/api", {"OLLAMA_HOST": "x"}, "http://[::1]:5"),
        ("ollama", "ollama", "http://localhost:11434/v1", {}, "http://localhost:11434"),
        ("openai", "openai", None, {}, "https://api.openai.com/v1"),
        ("openai", "openai", None, {"OPENAI_BASE_URL": "http://x/v1/"}, "http://x/v1"),
        ("local", "openai", "http://x:8000", {"OPENAI_BASE_URL": "http://y"}, "http://x:8000/v1"),
        ("local", "openai", "http://x/v1/chat/completions", {}, "http://x/v1"),
        ("local", "openai", None, {"OPENAI_BASE_URL": "http://y"}, None),
        ("anthropic", "anthropic", "http://x/v1/messages", {}, "http://x"),
        ("gemini", "gemini", "http://x", {}, "http://x/v1beta"),
        ("mistral", "openai", None, {}, "https://api.mistral.ai/v1"),
        ("openrouter", "openai", None, {}, "https://openrouter.ai/api/v1"),
        ("azure", "azure", None, {"AZURE_OPENAI_ENDPOINT": "https://r.example/?api-version=1"}, "https://r.example/?api-version=1"),
        ("azure", "azure", None, {}, None),
    ],
)  # fmt: skip
def test_addresses_are_completed(
    name: str, kind: str, given: str | None, environ: dict[str, str], found: str | None
) -> None:
    assert address(name, kind, given, environ) == found


@pytest.mark.parametrize(
    ("given", "environ", "found"),
    [
        ("https://r.example", {}, AzureAddress("https://r.example", "2024-10-21", None)),
        ("https://r.example/openai/", {"OPENAI_API_VERSION": "1"}, AzureAddress("https://r.example", "1", None)),
        ("https://r.example/openai/deployments/d/chat/completions?api-version=2", {}, AzureAddress("https://r.example", "2", "d")),
        ("https://r.example/openai/v1", {"OPENAI_API_VERSION": "1"}, AzureAddress("https://r.example/openai/v1", None, None)),
    ],
)  # fmt: skip
def test_an_address_of_azure_has_parts(given: str, environ: dict[str, str], found: AzureAddress) -> None:
    assert azure(given, environ) == found


async def test_a_provider_is_made_by_its_name_in_any_case() -> None:
    async with model_server(say("ok")) as server, aiohttp.ClientSession() as session:
        settings = AgentSettings()
        provider = make_provider("OLLAMA", settings, session, all_keys(), environ={"OLLAMA_HOST": server.url})
        assert (await ask(provider)).text == "ok"


@pytest.mark.parametrize(
    ("name", "cause", "step"),
    [
        ("olama", "there is no such provider; did you mean ollama?", "choose one of ollama, openai"),
        ("gemini", "it is disabled", "choose one of ollama"),
        (
            "azure",
            "its address is not configured",
            "set api_base of [agent.providers.azure], or AZURE_OPENAI_ENDPOINT",
        ),
        ("local", "its address is not configured", "set api_base of [agent.providers.local]"),
        ("wrong", "its address is no URL", "correct api_base of [agent.providers.wrong]"),
    ],
)
async def test_what_cannot_be_made_is_told(name: str, cause: str, step: str) -> None:
    settings = AgentSettings(
        providers={
            "gemini": ProviderEntry(disabled=True),
            "local": ProviderEntry(),
            "wrong": ProviderEntry(api_base="http://["),
        }
    )
    async with aiohttp.ClientSession() as session:
        with pytest.raises(ProviderFailure) as raised:
            make_provider(name, settings, session, all_keys(), environ={})
    assert raised.value.cause == cause
    assert raised.value.next_step.startswith(step)
