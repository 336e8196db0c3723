"""Lists the known clients: where each has its configuration, how it is found, and what is written. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.client_setup import entries
from lm_tools_bridge.client_setup.change import FileFormat
from lm_tools_bridge.client_setup.editing.yaml_servers import YamlForm
from lm_tools_bridge.client_setup.entries import MakeEntry
from lm_tools_bridge.text.jsonc_parser import JSON, Dialect

COMMENTS: Final = Dialect(comments=True)
RELAXED: Final = Dialect(comments=True, trailing_commas=True)

_WITHOUT_FOLDER: Final = (
    "this file cannot send the project's folder: the manager asks the client for its roots,"
    " or the model names the folder"
)
_OWN_FOLDER: Final = (
    "the project is the folder in which it starts lmtb connect; if that is none, the model names the folder"
)


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides where files are: the environment, the home folder, and `sys.platform`."""

    environ: Mapping[str, str]
    home: Path
    platform: str

    def variable(self, name: str) -> Path | None:
        """The absolute path in an environment variable, if it has one."""
        path = Path(self.environ.get(name, "").strip())
        return path if path.is_absolute() else None

    def xdg_config(self) -> Path:
        """The folder for configuration by the XDG rules, which some programs follow on every system."""
        return self.variable("XDG_CONFIG_HOME") or self.home / ".config"

    def app_config(self) -> Path:
        """The folder for configuration of desktop programs on this system."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.variable("APPDATA") or self.home / "AppData" / "Roaming"
        return self.xdg_config()


@dataclass(frozen=True, slots=True)
class Client:
    """A client that we know.

    Attributes:
        id: what a person types.
        title: its name.
        folder: the folder that has the file.
        files: the names of the file in that folder, the preferred one first; the last one is created.
        programs: names on the PATH, any of which shows that the client is installed.
        form: how the file is written.
        entry: makes the entry.
        note: what a person should know after it was added.
        sign: the folder that exists if the client was used; None if it is the file's folder.
        sends_folder: whether the project is found without the model: by the entry, or by the client's roots.
    """

    id: str
    title: str
    folder: Callable[[Machine], Path]
    files: tuple[str, ...]
    programs: tuple[str, ...]
    form: FileFormat
    entry: MakeEntry
    note: str = ""
    sign: Callable[[Machine], Path] | None = None
    sends_folder: bool = False

    def candidates(self, machine: Machine) -> tuple[Path, ...]:
        """The paths its file may have; the last one is created if there is none."""
        folder = self.folder(machine)
        return tuple(folder / name for name in self.files)

    def sign_folder(self, machine: Machine) -> Path:
        """The folder that exists if the client was used."""
        return (self.sign or self.folder)(machine)


def _zed(machine: Machine) -> Path:
    if machine.platform == "win32":
        return machine.app_config() / "Zed"
    return (machine.home / ".config" if machine.platform == "darwin" else machine.xdg_config()) / "zed"


def _cline(machine: Machine) -> Path:
    folder = machine.variable("CLINE_DIR") or machine.home / ".cline"
    return (machine.variable("CLINE_DATA_DIR") or folder / "data") / "settings"


def _goose(machine: Machine) -> Path:
    root = machine.variable("GOOSE_PATH_ROOT")
    return root / "config" if root is not None else machine.xdg_config() / "goose"


_OF_GOOSE: Final = (("cmd", "command"), ("uri", "url"))
"""What Goose calls two members of an entry."""

CLIENTS: Final = (
    Client(
        "claude-code",
        "Claude Code",
        lambda machine: machine.variable("CLAUDE_CONFIG_DIR") or machine.home,
        (".claude.json",),
        ("claude",),
        FileFormat("mcpServers", JSON),
        entries.claude_code,
        sign=lambda machine: machine.variable("CLAUDE_CONFIG_DIR") or machine.home / ".claude",
        sends_folder=True,
    ),
    Client(
        "codex",
        "Codex",
        lambda machine: machine.variable("CODEX_HOME") or machine.home / ".codex",
        ("config.toml",),
        ("codex",),
        FileFormat("mcp_servers", None),
        entries.codex,
        "Codex now waits for the manager, which its entry starts if none runs",
        sends_folder=True,
    ),
    Client(
        "gemini-cli",
        "Gemini CLI",
        lambda machine: (machine.variable("GEMINI_CLI_HOME") or machine.home) / ".gemini",
        ("settings.json",),
        ("gemini",),
        FileFormat("mcpServers", COMMENTS),
        entries.gemini,
        "Gemini CLI connects only in folders that you trust in Gemini CLI",
        sends_folder=True,
    ),
    Client(
        "opencode",
        "opencode",
        lambda machine: machine.xdg_config() / "opencode",
        ("opencode.jsonc", "opencode.json"),
        ("opencode",),
        FileFormat("mcp", RELAXED),
        entries.opencode,
        sends_folder=True,
    ),
    Client(
        "vscode",
        "VS Code",
        lambda machine: machine.app_config() / "Code" / "User",
        ("mcp.json",),
        ("code",),
        FileFormat("servers", RELAXED),
        entries.vscode,
        _WITHOUT_FOLDER,
    ),
    Client(
        "cursor",
        "Cursor",
        lambda machine: machine.home / ".cursor",
        ("mcp.json",),
        ("cursor", "cursor-agent"),
        FileFormat("mcpServers", COMMENTS),
        entries.plain_address,
        _WITHOUT_FOLDER,
    ),
    Client(
        "copilot-cli",
        "Copilot CLI",
        lambda machine: machine.variable("COPILOT_HOME") or machine.home / ".copilot",
        ("mcp-config.json",),
        ("copilot",),
        FileFormat("mcpServers", JSON),
        entries.copilot,
        sends_folder=True,
    ),
    Client(
        "qwen-code",
        "Qwen Code",
        lambda machine: machine.variable("QWEN_HOME") or machine.home / ".qwen",
        ("settings.json",),
        ("qwen",),
        FileFormat("mcpServers", COMMENTS),
        entries.gemini,
        sends_folder=True,
    ),
    Client(
        "kilo",
        "Kilo",
        lambda machine: machine.xdg_config() / "kilo",
        ("kilo.jsonc", "kilo.json"),
        ("kilo", "kilocode"),
        FileFormat("mcp", RELAXED),
        entries.opencode,
        sends_folder=True,
    ),
    Client(
        "cline",
        "Cline",
        _cline,
        ("cline_mcp_settings.json",),
        ("cline",),
        FileFormat("mcpServers", JSON),
        entries.cline,
        "Cline does not say in which folder it works: the model names it",
        sign=lambda machine: machine.variable("CLINE_DIR") or machine.home / ".cline",
    ),
    Client(
        "continue",
        "Continue",
        lambda machine: machine.variable("CONTINUE_GLOBAL_DIR") or machine.home / ".continue",
        ("config.yaml",),
        ("cn",),
        FileFormat("mcpServers", None, yaml=YamlForm()),
        entries.program,
        sends_folder=True,
    ),
    Client(
        "grok",
        "Grok Build",
        lambda machine: machine.variable("GROK_HOME") or machine.home / ".grok",
        ("config.toml",),
        ("grok",),
        FileFormat("mcp_servers", None),
        entries.grok,
        sends_folder=True,
    ),
    Client(
        "crush",
        "Crush",
        lambda machine: machine.xdg_config() / "crush",
        ("crush.json",),
        ("crush",),
        FileFormat("mcp", JSON),
        entries.stdio_program,
        _OWN_FOLDER,
    ),
    Client(
        "droid",
        "Droid",
        lambda machine: machine.home / ".factory",
        ("mcp.json",),
        ("droid",),
        FileFormat("mcpServers", JSON),
        entries.stdio_program,
        sends_folder=True,
    ),
    Client(
        "goose",
        "Goose",
        _goose,
        ("config.yaml",),
        ("goose",),
        FileFormat("extensions", None, yaml=YamlForm(is_list=False, members=_OF_GOOSE)),
        entries.goose,
        _OWN_FOLDER,
    ),
    Client(
        "kiro",
        "Kiro",
        lambda machine: machine.home / ".kiro" / "settings",
        ("mcp.json",),
        ("kiro-cli", "kiro"),
        FileFormat("mcpServers", JSON),
        entries.program,
        _OWN_FOLDER,
        sign=lambda machine: machine.home / ".kiro",
    ),
    Client(
        "amp",
        "Amp",
        lambda machine: machine.home / ".config" / "amp",
        ("settings.json",),
        ("amp",),
        FileFormat("amp.mcpServers", COMMENTS),  # one key, with a dot in it
        entries.program,
        _OWN_FOLDER,
    ),
    Client(
        "junie",
        "Junie",
        lambda machine: machine.home / ".junie" / "mcp",
        ("mcp.json",),
        ("junie",),
        FileFormat("mcpServers", JSON),
        entries.program,
        _OWN_FOLDER,
        sign=lambda machine: machine.home / ".junie",
    ),
    Client(
        "antigravity",
        "Antigravity",
        lambda machine: machine.home / ".gemini" / "config",
        ("mcp_config.json",),
        ("agy", "antigravity"),
        FileFormat("mcpServers", JSON),
        entries.program,
        _OWN_FOLDER,
    ),
    Client(
        "zed",
        "Zed",
        _zed,
        ("settings.json",),
        ("zed", "zeditor"),
        FileFormat("context_servers", RELAXED),
        entries.plain_address,
        "Zed does not send the project's folder: the model names it",
    ),
    Client(
        "windsurf",
        "Windsurf",
        lambda machine: machine.home / ".codeium" / "windsurf",
        ("mcp_config.json",),
        ("windsurf",),
        FileFormat("mcpServers", JSON),
        entries.windsurf,
        _WITHOUT_FOLDER,
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        lambda machine: machine.app_config() / "Claude",
        ("claude_desktop_config.json",),
        ("claude-desktop",),
        FileFormat("mcpServers", JSON),
        entries.program,
        "Claude Desktop has no project folder: the model names it",
    ),
)

_BY_ID: Final = {client.id: client for client in CLIENTS}


def client_named(name: str) -> Client | None:
    """The client with that id, whatever its letter case."""
    return _BY_ID.get(name.lower())
