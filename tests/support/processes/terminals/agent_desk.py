"""A desk for the terminal agent: a project, a running manager of its user, and a scripted model."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.processes.managers.manager_process import ManagerProcess
from support.processes.terminals.screen_session import ScreenSession, screen_session
from support.servers.models.formats.steps import Reply, call
from support.servers.models.model_server import ModelServer
from support.servers.models.model_thread import model_in_thread

PROMPT = "\n>"
"""What the screen ends with when the agent waits for input."""


def command(text: str) -> Reply:
    """A reply that calls the agent's shell."""
    return call("os_assistant_run_shell_command", {"command": text})


def prompts(terminal: ScreenSession) -> str:
    """Wait for the prompt at the end of the screen; what it shows."""
    return terminal.see(lambda shown: shown.rstrip().endswith(PROMPT), "a prompt")


@dataclass(slots=True)
class AgentDesk:
    """Where a person sits.

    Attributes:
        project: the working folder.
        environ: what the agent runs with.
        model: the scripted model.
    """

    project: Path
    environ: dict[str, str]
    model: ModelServer

    @property
    def config_file(self) -> Path:
        """The user's settings."""
        return Path(self.environ["LMTB_CONFIG_DIR"]) / "config.toml"

    def agent(self, *words: str, **size: int) -> AbstractContextManager[ScreenSession]:
        """The agent at a terminal."""
        command = [sys.executable, "-I", "-m", "manager", "agent", *words]
        return screen_session(command, self.environ, cwd=self.project, **size)

    def run(self, *words: str, typed: str | None = None, env: Mapping[str, str] | None = None) -> Ended:
        """The agent in a pipe, to its end."""
        command = [sys.executable, "-I", "-m", "manager", "agent", *words]
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if typed is None else {"input": typed}
        ended = subprocess.run(
            command, env={**self.environ, **(env or {})}, cwd=self.project, capture_output=True, text=True,
            timeout=50, check=False, **given,
        )  # fmt: skip
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def audit(self) -> list[dict[str, Any]]:
        """The decisions that were recorded."""
        file = Path(self.environ["LMTB_STATE_DIR"]) / "logs" / "agent-audit.log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON lines of standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


@contextmanager
def agent_desk(
    manager: ManagerProcess,
    folder: Path,
    *turns: Any,
    dialect: str = "ollama",
    settings: str = "",
    **options: Any,
) -> Iterator[AgentDesk]:
    """A desk with this model.

    Args:
        manager: a running one; its settings are replaced.
        folder: the project's.
        turns: of the model.
        dialect: of the model.
        settings: further lines of `[agent]`.
        options: of the model's server.
    """
    project = folder / "project"
    (project / ".git").mkdir(parents=True, exist_ok=True)
    with model_in_thread(*turns, **options) as model:
        desk = AgentDesk(
            project,
            {**manager.environ, "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"},
            model,
        )
        desk.config_file.parent.mkdir(parents=True, exist_ok=True)
        desk.config_file.write_text(
            f'[agent]\nendpoint = "{manager.address}"\ndefault_provider = "{dialect}"\n{settings}\n'
            f'[agent.model]\n{dialect} = "tiny"\n'
            f'[agent.providers.{dialect}]\napi_base = "{model.base(dialect)}"\n'
        )
        yield desk
