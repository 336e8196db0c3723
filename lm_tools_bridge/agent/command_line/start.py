"""Reads what a run begins with: settings, providers and the chosen model; the agent itself is not loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from lm_tools_bridge.agent.command_line.arguments import Arguments
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.providers.configuration import Configured, configured, with_preferred_models
from lm_tools_bridge.agent.screen.screen import Screen
from lm_tools_bridge.agent.screen.state_line import model_name, state_line
from lm_tools_bridge.agent.settings.file import load
from lm_tools_bridge.agent.settings.project_folder import project_folder
from lm_tools_bridge.agent.settings.settings import MANUAL, AgentSettings
from lm_tools_bridge.text.near_names import did_you_mean

CONFIG_FILE: Final = "config.toml"


class Start(NamedTuple):
    """What a run begins with.

    Attributes:
        settings: the user's, with the preferred model of each provider where they name none.
        providers: all of them.
        provider: the chosen one, or `manual`.
        model: the chosen model; empty if there is none.
    """

    settings: AgentSettings
    providers: Configured
    provider: str
    model: str

    @property
    def state_line(self) -> str:
        """The line above the first prompt."""
        name = MANUAL if self.provider == MANUAL else model_name(self.provider, self.model)
        return state_line(name, asks=self.settings.human_in_loop)


def read_start(screen: Screen, arguments: Arguments, workspace: Path | None = None) -> Start | None:
    """Read the settings and choose; None if there is no such provider. Problems are shown.

    Args:
        screen: where problems are shown.
        arguments: the command line.
        workspace: the folder to work in; by default the current one.
    """
    loaded = load(config_file(arguments))
    providers = configured(loaded.settings, arguments.config_dir, project_folder(workspace or Path.cwd()))
    for problem in (*loaded.problems, *providers.problems):
        screen.notice(problem, Tone.WARNING)
    settings = with_preferred_models(loaded.settings, providers)
    name = settings.default_provider
    if arguments.provider is not None:
        name = arguments.provider.lower()
        provider_names = (*providers.offered(), MANUAL)
        if name not in provider_names:
            hint = did_you_mean(name, provider_names)
            text = f"there is no provider {name}{hint}; known: {', '.join(provider_names)}"
            screen.notice(text, Tone.ERROR)
            return None
    return Start(settings, providers, name, arguments.model or settings.model.get(name, ""))


def config_file(arguments: Arguments) -> Path:
    """The file with the user's settings."""
    return arguments.config_dir / CONFIG_FILE
