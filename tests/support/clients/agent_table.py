"""The table of agent programs: how each is configured to work headless, without an account, on a scripted model.

The part that concerns our manager is taken from `docs/clients/`, so that what users are told is what is tested.
`scripts/agents` installs the programs, `tests/agents/` runs them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

from support.clients.agents import KEY, Agent, Place


def _claude_code(place: Place) -> Mapping[str, str]:
    settings = json.loads(place.documented("claude-code.md", "json"))
    accepted = {
        "hasCompletedOnboarding": True,
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [KEY], "rejected": []},
        "projects": {str(path): {"hasTrustDialogAccepted": True} for path in (place.project, *place.others)},
    }
    place.write(".claude.json", json.dumps({**accepted, **settings}))
    return {
        "ANTHROPIC_BASE_URL": place.model,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "IS_SANDBOX": "1",  # else it refuses to run as root without permissions
    }


def _codex(place: Place) -> Mapping[str, str]:
    settings = f"""
model = "scripted"
model_provider = "scripted"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{place.model}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[analytics]
enabled = false
"""
    for folder in (place.project, *place.others):
        settings += f'[projects.{json.dumps(str(folder))}]\ntrust_level = "trusted"\n'
    place.write(".codex/config.toml", f"{settings}\n{place.documented('codex.md', 'toml')}")
    return {"SCRIPTED_KEY": KEY, "CODEX_HOME": str(place.home / ".codex")}


def _gemini_cli(place: Place) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        **json.loads(place.documented("gemini-cli.md", "json")),
    }
    place.write(".gemini/settings.json", json.dumps(settings))
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": place.model}


def _opencode(place: Place) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{place.model}/v1", "apiKey": KEY},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "enabled_providers": ["scripted"],
        "model": "scripted/scripted",
        "provider": {"scripted": provider},
        **json.loads(place.documented("opencode.md", "json")),
    }
    place.write(".config/opencode/opencode.json", json.dumps(settings))
    return {
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    }


def _copilot_cli(place: Place) -> Mapping[str, str]:
    place.write(".copilot/mcp-config.json", place.documented("copilot-cli.md", "json"))
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{place.model}/v1",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": "gpt-5",
        "COPILOT_AUTO_UPDATE": "false",
    }


def _qwen_code(place: Place) -> Mapping[str, str]:
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
        "memory": {
            "enableManagedAutoMemory": False, "enableManagedAutoDream": False, "enableAutoSkill": False
        },
        **json.loads(place.documented("qwen-code.md", "json")),
    }  # fmt: skip
    place.write(".qwen/settings.json", json.dumps(settings))
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{place.model}/v1", "OPENAI_MODEL": "scripted"}


def _kilo(place: Place) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{place.model}/v1", "apiKey": KEY},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    settings = {
        "autoupdate": False,
        "share": "disabled",
        "enabled_providers": ["scripted"],
        "model": "scripted/scripted",
        "provider": {"scripted": provider},
        **json.loads(place.documented("kilo.md", "json")),
    }
    place.write(".config/kilo/kilo.json", json.dumps(settings))
    return {
        "KILO_DISABLE_AUTOUPDATE": "1",
        "KILO_DISABLE_MODELS_FETCH": "1",
        "KILO_DISABLE_LSP_DOWNLOAD": "1",
    }


CLINE_PROGRAM = """{"mcpServers": {"lm-tools-bridge":
    {"transport": {"type": "stdio", "command": "lmtb", "args": ["connect"]}}}}"""
"""An entry with which Cline lists the project's tools; with the documented one the model first names its folder."""


def _cline(place: Place) -> Mapping[str, str]:
    settings = {
        "provider": "openai-compatible",
        "apiKey": KEY,
        "model": "gpt-5",
        "baseUrl": f"{place.model}/v1",
    }
    providers = {
        "version": 1, "lastUsedProvider": "openai-compatible", "modes": {},
        "providers": {"openai-compatible": {
            "settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"
        }},
    }  # fmt: skip
    place.write(".cline/data/settings/providers.json", json.dumps(providers))
    place.write(".cline/data/settings/cline_mcp_settings.json", place.documented("cline.md", "json"))
    return {}


def _continue_cli(place: Place) -> Mapping[str, str]:
    settings = {
        "name": "scripted", "version": "1.0.0", "schema": "v1",
        "models": [{
            "name": "scripted", "provider": "openai", "model": "scripted", "apiBase": f"{place.model}/v1",
            "apiKey": KEY, "roles": ["chat"], "capabilities": ["tool_use"],
        }],
        **yaml.safe_load(place.documented("continue.md", "yaml")),
    }  # fmt: skip
    place.write(".continue/config.yaml", json.dumps(settings))
    return {"CONTINUE_TELEMETRY_ENABLED": "0"}


AGENTS = {
    "claude-code": Agent(
        package="@anthropic-ai/claude-code 2.1.332",
        client="claude-code",
        prefix="mcp__lm-tools-bridge__",
        program="@anthropic-ai/claude-code/bin/claude.exe",
        arguments=("--dangerously-skip-permissions", "-p"),
        configure=_claude_code,
    ),
    "codex": Agent(
        package="@openai/codex 0.171.0",
        client="codex-mcp-client",
        prefix="mcp__lm_tools_bridge.",
        program="@openai/codex/bin/codex.js",
        arguments=("exec", "--dangerously-bypass-approvals-and-sandbox"),
        configure=_codex,
        is_script=True,
    ),
    "gemini-cli": Agent(
        package="@google/gemini-cli 0.61.0",
        client="gemini-cli-mcp-client",
        prefix="mcp_lm-tools-bridge_",
        program="@google/gemini-cli/bundle/gemini.js",
        arguments=("--yolo", "--skip-trust", "--model", "gemini-2.5-flash", "-p"),
        configure=_gemini_cli,
        is_script=True,
    ),
    "opencode": Agent(
        package="opencode-ai 1.18.33",
        client="opencode",
        prefix="lm-tools-bridge_",
        program="opencode-ai/bin/opencode.exe",
        arguments=("run", "--auto"),
        configure=_opencode,
    ),
    "copilot-cli": Agent(
        package="@github/copilot 1.0.102",
        client="copilot-cli",
        prefix="lm-tools-bridge-",
        program="@github/copilot/npm-loader.js",
        arguments=("--allow-all-tools", "--no-auto-update", "-p"),
        configure=_copilot_cli,
        is_script=True,
    ),
    "qwen-code": Agent(
        package="@qwen-code/qwen-code 0.24.4",
        client="qwen-cli-mcp-client-lm-tools-bridge",
        prefix="mcp__lm-tools-bridge__",
        program="@qwen-code/qwen-code/cli-entry.js",
        arguments=("--yolo", "-p"),
        configure=_qwen_code,
        is_script=True,
        calls_through="tool_call",
        reported="0.0.1",
    ),
    "kilo": Agent(
        package="@kilocode/cli 7.7.7",
        client="kilo",
        prefix="lm-tools-bridge_",
        program="@kilocode/cli/bin/kilo",
        arguments=("run", "--auto"),
        configure=_kilo,
        is_script=True,
    ),
    "cline": Agent(
        package="cline 3.0.65",
        client="@cline/core",
        prefix="lm-tools-bridge__",
        program="cline/bin/cline",
        arguments=("--json",),
        configure=_cline,
        listing_entry=CLINE_PROGRAM,
        reported="0.0.0",
        is_script=True,
    ),
    "continue": Agent(
        package="@continuedev/cli 1.5.47",
        client="continue-cli-client",
        prefix="",
        program="@continuedev/cli/dist/cn.js",
        arguments=("--auto", "-p"),
        configure=_continue_cli,
        reported="1.0.0",
        is_script=True,
    ),
}
