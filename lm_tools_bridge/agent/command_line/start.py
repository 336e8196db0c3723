"""Reads what a run begins with, and loads the agent while the prompt is already there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from lm_tools_bridge.agent.agent_settings import MANUAL, AgentSettings
from lm_tools_bridge.agent.command_line.arguments import Arguments
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.providers.configuration import Configured, configured, with_preferred_models
from lm_tools_bridge.agent.screen.screen import Screen, model_name, state_line
from lm_tools_bridge.agent.settings_file import load, project_folder
from lm_tools_bridge.agent.slash_commands.command_table import completions
from lm_tools_bridge.text.near_names import did_you_mean

if TYPE_CHECKING:
    from lm_tools_bridge.agent.assembly import Agent
    from lm_tools_bridge.agent.slash_commands.session import Session


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


def agent_of(
    screen: Screen,
    start: Start,
    arguments: Arguments,
    allowed: Sequence[str] | None = None,
    workspace: Path | None = None,
) -> Agent:
    """The agent with the chosen provider and model, in the current folder or another one.

    See `Agent` for `allowed`.
    """
    from lm_tools_bridge.agent.assembly import Agent, Folders  # takes as long to load as the prompt

    folders = Folders(arguments.config_dir, arguments.state_dir, arguments.runtime_dir)
    agent = Agent(
        screen, start.settings, folders, workspace or Path.cwd(), allowed=allowed, providers=start.providers
    )
    if allowed is None:
        agent.session.choose(start.provider)
    if start.provider != MANUAL:
        agent.conversation.choose(start.provider, start.model)
    return agent


async def models_of(
    screen: Screen, settings: AgentSettings, arguments: Arguments, name: str
) -> Sequence[str]:
    """The models that a provider lists, asked without a session. Raises ProviderFailure."""
    from lm_tools_bridge.agent.assembly import Agent, Folders

    folders = Folders(arguments.config_dir, arguments.state_dir, arguments.runtime_dir)
    providers = configured(settings, arguments.config_dir, project_folder(Path.cwd()))
    agent = Agent(screen, settings, folders, Path.cwd(), allowed=(), saves=False, providers=providers)
    try:
        return await agent.models(name)
    finally:
        await agent.close()


class Opening:
    """The agent of a session, from the moment when it is not there yet."""

    def __init__(self, screen: Screen, start: Start, arguments: Arguments) -> None:
        self._screen = screen
        self._start = start
        self._arguments = arguments
        self._agent: Agent | None = None

    async def session(self) -> Session:
        """Construct the agent, and go on with the last session if that was asked for."""
        await asyncio.to_thread(import_module, "lm_tools_bridge.agent.assembly")
        self._agent = agent = agent_of(self._screen, self._start, self._arguments)
        if self._arguments.resume:
            await agent.resume_last()
        return agent.session

    async def warm_up(self) -> None:
        """List the tools for the first time. After `session`."""
        if self._agent is not None:
            await self._agent.warm_up()

    def completions(self, text: str) -> Sequence[tuple[str, str]]:
        """What a beginning of an input can become."""
        if self._agent is None:
            return completions(text, [], [])
        toolbox = self._agent.toolbox
        names = [offer.name for offer in toolbox.offers]
        return completions(text, names, [source.name for source in toolbox.sources])

    async def close(self) -> None:
        """End everything that runs."""
        if self._agent is not None:
            await self._agent.close()
