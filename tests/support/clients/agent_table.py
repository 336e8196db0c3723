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
}
