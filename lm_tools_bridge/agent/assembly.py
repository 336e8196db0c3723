"""Constructs the agent: sources of tools, guard, conversation and session, each made when first needed."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lm_tools_bridge.agent.agent_settings import AgentSettings, default
from lm_tools_bridge.agent.conversation.conversation import Conversation
from lm_tools_bridge.agent.conversation.toolbox import LateDiscoverySource, LateSource, Toolbox
from lm_tools_bridge.agent.guard.audit import Audit
from lm_tools_bridge.agent.guard.guard import AskingGuard, Mode
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.messages import Provider
from lm_tools_bridge.agent.providers.configuration import (
    Configured,
    configured,
    providers_file,
    with_preferred_models,
)  # fmt: skip
from lm_tools_bridge.agent.saved_sessions import SavedSessions
from lm_tools_bridge.agent.screen.screen import Screen
from lm_tools_bridge.agent.settings_file import manager_endpoint, project_folder
from lm_tools_bridge.agent.slash_commands.session import Session, answer_of
from lm_tools_bridge.agent.tool_source import ToolSource
from lm_tools_bridge.machine.own_token import own_headers

if TYPE_CHECKING:
    import aiohttp

    from lm_tools_bridge.agent.provider_keys import KeyLookup
    from lm_tools_bridge.agent.providers.request_log import RequestLog

AUDIT_FILE: Final = "agent-audit.log"
SESSIONS_FOLDER: Final = "agent-sessions"
_PROVIDERS: Final = "providers"
"""What `lmtb trust` calls the file with the providers."""


class Folders(NamedTuple):
    """The folders of the user's manager."""

    config_dir: Path
    state_dir: Path
    runtime_dir: Path


class Agent:
    """One run of the agent in a folder.

    Args:
        screen: the person, or the program that reads events.
        settings: those of the user.
        folders: of the user's manager.
        workspace: the folder that the agent works in.
        allowed: for a single turn, the tools that may run without a question; None in a session.
        saves: whether the conversation is saved.
        providers: as configured, if they were read and their problems shown; None to do it here.
    """

    def __init__(
        self,
        screen: Screen,
        settings: AgentSettings,
        folders: Folders,
        workspace: Path,
        *,
        allowed: Sequence[str] | None = None,
        saves: bool = True,
        providers: Configured | None = None,
    ) -> None:
        self._screen = screen
        self._folders = folders
        self._workspace = workspace
        self._http: aiohttp.ClientSession | None = None
        self._manager_http: aiohttp.ClientSession | None = None
        self._log: RequestLog | None = None
        self._providers: dict[str, Provider] = {}
        self._provider_settings: AgentSettings | None = None
        self._is_trusted = False
        if providers is None:
            providers = configured(settings, folders.config_dir, project_folder(workspace))
            for problem in providers.problems:
                screen.notice(problem, Tone.WARNING)
        self._configured = providers
        self._project = providers.project or workspace
        settings = with_preferred_models(settings, providers)
        warn = partial(screen.notice, tone=Tone.WARNING)
        self._audit = Audit(folders.state_dir / "logs" / AUDIT_FILE, failed=warn)
        mode = None if allowed is None else Mode.ONE_SHOT
        self.guard = AskingGuard(
            screen, settings, self._audit, mode=mode, allowed=allowed or (), project=workspace
        )
        self.toolbox = Toolbox(self._sources(settings))
        self.saved = SavedSessions(
            folders.state_dir / SESSIONS_FOLDER, workspace, clock=time.time, chance=_chance, problem=warn
        )
        self.conversation = Conversation(
            self._provider, self.toolbox, self.guard, screen, settings, clock=time.monotonic,
            workspace=workspace, keep=self.saved.keep if saves else None,
            model_of=self._model,
        )  # fmt: skip
        self.session = Session(
            screen, self.conversation, self.toolbox, self.guard, settings,
            folders.config_dir / "config.toml", partial(answer_of, workspace), self.saved,
            self._schema_changes, self.models,
        )  # fmt: skip

    async def prepare(self) -> None:
        """Learn what of the project is trusted, if anything depends on it."""
        if "dotenv" in self.session.settings.key_sources:
            trusted = (await self.session.lmtb("trust", "--list")).get("workspaces")
            roots = [entry.get("root") for entry in trusted] if isinstance(trusted, list) else []
            self._is_trusted = str(self._project) in roots
        if not await asyncio.to_thread(providers_file(self._project).exists):
            return
        answer = await self.session.lmtb("trust", str(self._project), _PROVIDERS)
        configuration = await asyncio.to_thread(
            configured, self.session.settings, self._folders.config_dir, self._project,
            trusted=says_trusted(answer, self._project), trusted_content=trusted_content(answer),
        )  # fmt: skip
        for problem in configuration.problems:
            if problem not in self._configured.problems:
                self._screen.notice(problem, Tone.WARNING)
        self._configured = configuration
        self._providers.clear()

    async def warm_up(self) -> None:
        """Connect and list the tools for the first time, after the prompt is there."""
        await self.prepare()
        await asyncio.to_thread(import_module, "aiohttp")
        await self.toolbox.refresh()

    async def resume_last(self) -> None:
        """Go on with the last session of this folder, if there is one."""
        entries = await asyncio.to_thread(self.saved.entries)
        if not entries:
            self._screen.notice("there is no saved session of this folder; this is a new one")
            return
        messages = await asyncio.to_thread(self.saved.load, entries[0].id)
        self.conversation.restore(messages)
        self._screen.notice(f"goes on with {len(messages)} messages of {entries[0].when}")

    async def close(self) -> None:
        """End everything that runs."""
        await self.toolbox.close()
        for http in (self._http, self._manager_http):
            if http is not None:
                await http.close()
        await asyncio.to_thread(self._audit.close)
        if self._log is not None:
            await asyncio.to_thread(self._log.close)

    # -- what is made when it is needed -------------------------------------------------------------------

    def _session(self) -> aiohttp.ClientSession:
        import aiohttp  # takes longer to load than the prompt may take to appear

        if self._http is None:
            self._http = aiohttp.ClientSession()
        return self._http

    def _manager_session(self, *, is_ours: bool) -> aiohttp.ClientSession:
        """Sends to programs of this user alone: `is_ours` always, else what has a token.

        An address of the user's choice may lead to another host, or into a container.
        """
        import aiohttp

        from lm_tools_bridge.machine.proved_connector import ProvedConnector

        self._manager_http = aiohttp.ClientSession(connector=ProvedConnector(always=is_ours))
        return self._manager_http

    def _provider(self, name: str) -> Provider:
        settings = self.session.settings
        if self._provider_settings is not settings:
            self._providers, self._provider_settings = {}, settings
        if name not in self._providers:
            self._providers[name] = self._new_provider(name, settings)
        return self._providers[name]

    def _new_provider(self, name: str, settings: AgentSettings) -> Provider:
        from lm_tools_bridge.agent.providers.factory import make_provider  # loads aiohttp
        from lm_tools_bridge.agent.providers.http_provider import Retries

        provider = make_provider(
            name, settings, self._session(), self._keys(), configurations=self._configured.providers,
            retries=Retries(on_wait=self._screen.activity),
        )  # fmt: skip
        return self._logged(provider, settings)

    def _logged(self, provider: Provider, settings: AgentSettings) -> Provider:
        from lm_tools_bridge.agent.providers.request_log import LoggedProvider, RequestLog, is_wanted

        if not is_wanted(settings.debug, os.environ):
            return provider
        self._log = self._log or RequestLog(self._folders.state_dir / "logs")
        return LoggedProvider(provider, self._log, time.monotonic)

    async def models(self, name: str) -> Sequence[str]:
        """The models that a provider lists; empty if it lists none. Raises ProviderFailure."""
        from lm_tools_bridge.agent.providers.factory import make_plain_provider  # loads aiohttp

        provider = make_plain_provider(
            name, self.session.settings, self._session(), self._keys(),
            configurations=self._configured.providers,
        )  # fmt: skip
        self._screen.activity(f"asking {name} for its models")
        try:
            return await provider.models()
        finally:
            self._screen.activity(None)

    async def _model(self, name: str) -> str:
        """A model for a provider whose settings name none."""
        from lm_tools_bridge.agent.slash_commands.model_choice import choose_model

        return await choose_model(self._screen, name, await self.models(name), self.session.config_file)

    def _schema_changes(self, schema: Mapping[str, Any]) -> Sequence[str]:
        """What the chosen provider is not given of a tool's schema."""
        from lm_tools_bridge.agent.providers.factory import schema_changes

        provider = self._configured.providers.get(self.conversation.provider)
        return () if provider is None else schema_changes(provider.kind, schema)

    def _keys(self) -> KeyLookup:
        from lm_tools_bridge.agent.key_sources import DotEnvKeys, EnvironmentKeys, StoredKeys
        from lm_tools_bridge.agent.provider_keys import KeyLookup

        makers: Mapping[str, Callable[[], Any]] = {
            "environment": lambda: EnvironmentKeys(os.environ),
            "dotenv": lambda: DotEnvKeys(self._project / ".env", trusted=self._is_trusted),
            "store": lambda: StoredKeys(self._folders.runtime_dir),
        }
        return KeyLookup([makers[name]() for name in self.session.settings.key_sources])

    def _sources(self, settings: AgentSettings) -> list[ToolSource]:
        manager = LateDiscoverySource("manager", lambda: self._manager_source(settings))
        if not settings.local_tools:
            return [manager]
        return [manager, LateSource("os_assistant", lambda: self._local_tools(settings))]

    def _manager_source(self, settings: AgentSettings) -> ToolSource:
        from lm_tools_bridge.agent.manager_client.elicitation import Elicitation  # loads aiohttp
        from lm_tools_bridge.agent.manager_client.source import ManagerSource

        elicitation = Elicitation(self._screen, self.guard)
        endpoint, may_move = settings.endpoint, settings.endpoint == default("endpoint")
        if may_move:
            endpoint = manager_endpoint(self._folders.config_dir / "config.toml", os.environ)
        return ManagerSource(
            endpoint, str(self._workspace), elicitation, self._manager_session(is_ours=may_move),
            tool_s=settings.tool_s, may_move=may_move,
            own_headers=partial(own_headers, self._folders.runtime_dir),
        )  # fmt: skip

    def _local_tools(self, settings: AgentSettings) -> ToolSource:
        from lm_tools_bridge.agent.local_tools.source import LocalTools
        from lm_tools_bridge.agent.local_tools.sudo import Sudo

        return LocalTools(self._workspace, settings, Sudo(self._screen, allowed=settings.sudo == "askpass"))


def _chance() -> str:
    return secrets.token_hex(4)


def says_trusted(answer: Mapping[str, Any], project: Path) -> bool:
    """Whether `lmtb trust` says so of this project: the root that it speaks of may be another one's."""
    return answer.get("ok") is True and answer.get("trusted") is True and answer.get("root") == str(project)


def trusted_content(answer: Mapping[str, Any]) -> str | None:
    """The digest of the file that this answer of `lmtb trust` is about."""
    items = answer.get("items")
    return next((item.get("content") for item in items if isinstance(item, dict)), None) if items else None
