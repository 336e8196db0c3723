"""The table of agent programs: how each is configured to work headless, without an account, on a scripted model.

The part that concerns our manager is taken from `docs/clients/`, so that what users are told is what is tested.
`scripts/agents` installs the programs, `tests/agents/` runs them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from support.clients.agents import KEY, Agent, Place


def _claude_code(place: Place) -> Mapping[str, str]:
    settings = json.loads(place.documented("claude-code.md", "json"))
    place.write(".claude.json", json.dumps({"hasCompletedOnboarding": True, **settings}))
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
[projects.{json.dumps(str(place.project))}]
trust_level = "trusted"
"""
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


AGENTS = {
    "claude-code": Agent(
        package="@anthropic-ai/claude-code 2.1.330",
        client="claude-code",
        prefix="mcp__lm-tools-bridge__",
        program="@anthropic-ai/claude-code/bin/claude.exe",
        arguments=("--dangerously-skip-permissions", "-p"),
        configure=_claude_code,
    ),
    "codex": Agent(
        package="@openai/codex 0.169.0",
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
}
