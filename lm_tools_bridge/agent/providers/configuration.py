"""Merges the configuration of model providers: what is built in, the user's, and the workspace's.

`providers.json` of the user and of the workspace have the form that docs/secrets.md describes. An address in
the file of a workspace that is not trusted is ignored, so that no key can be sent elsewhere.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from lm_tools_bridge.agent.agent_settings import KNOWN_PROVIDERS, AgentSettings
from lm_tools_bridge.machine import private_files, project_file
from lm_tools_bridge.text.printable import printable

FILE: Final = "providers.json"
WORKSPACE_FOLDER: Final = ".lm-tools-bridge"
_LARGEST: Final = 1024 * 1024  # bytes of a file of providers, which is read whole
_LONGEST_NAME: Final = 100  # characters of a model's name, which a project's file may choose
_KINDS: Final[Mapping[str, str]] = {
    "ollama": "ollama", "azure": "azure", "anthropic": "anthropic", "gemini": "gemini", "google": "gemini",
}  # fmt: skip
"""Name -> dialect; every other provider speaks that of OpenAI unless its entry says otherwise."""
Source = Literal["built-in", "user", "workspace"]


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """One provider as configured.

    Attributes:
        name: its name in lower case.
        kind: its dialect.
        enabled: whether it is offered.
        api_base: its address, if one is configured.
        key_name: the variable or stored secret with its key, if one is configured.
        models: its models, the preferred one first; may be empty.
        source: whose configuration decided last.
        source_detail: the file of that; empty for what is built in.
    """

    name: str
    kind: str
    enabled: bool = True
    api_base: str | None = None
    key_name: str | None = None
    models: tuple[str, ...] = ()
    source: Source = "built-in"
    source_detail: str = ""


class FileEntry(NamedTuple):
    """One provider in a file: only what the file says."""

    name: str
    enabled: bool | None
    api_base: str | None
    models: tuple[str, ...]
    source_detail: str


class Configured(NamedTuple):
    """All providers by name, what could not be used of the files (a line each), and the project's folder."""

    providers: Mapping[str, ProviderConfig]
    problems: tuple[str, ...] = ()
    project: Path | None = None

    def offered(self) -> tuple[str, ...]:
        """The names of the providers that can be chosen."""
        return tuple(name for name, provider in self.providers.items() if provider.enabled)


def configured(
    settings: AgentSettings,
    config_dir: Path | None = None,
    project: Path | None = None,
    *,
    trusted: bool | None = None,
    trusted_content: str | None = None,
) -> Configured:
    """Read both files and merge them with the settings. Blocks.

    Args:
        settings: the user's settings, whose `[agent.providers]` take the place of entries in the user's file.
        config_dir: the user's configuration folder.
        project: the folder of the project, as `project_folder` finds it.
        trusted: whether the project's file is trusted; None if that is not known yet, and told later.
        trusted_content: the digest of the bytes that are trusted, as `lmtb trust` says it. Other bytes are
            not trusted: a program of the project may have changed the file since.
    """
    problems: list[str] = []
    user: list[FileEntry] = []
    if config_dir is not None:
        file = config_dir / FILE
        user = _entries(file, _read_user_file(file, problems), problems)
    content = None if project is None else _read_project_file(providers_file(project), problems)
    of_project = [] if project is None else _entries(providers_file(project), content, problems)
    if trusted:
        trusted = trusted_content == _digest(content)
    providers = merged(settings, user, of_project, trusted=trusted, problems=problems)
    return Configured(providers, tuple(map(printable, problems)), project)


def providers_file(project: Path) -> Path:
    """The file of a project, given its folder."""
    return project / WORKSPACE_FOLDER / FILE


def with_preferred_models(settings: AgentSettings, configuration: Configured) -> AgentSettings:
    """The settings, with the preferred model of a provider where they name none."""
    preferred = {
        name: provider.models[0] for name, provider in configuration.providers.items() if provider.models
    }
    return msgspec.structs.replace(settings, model={**preferred, **settings.model})


def merged(
    settings: AgentSettings,
    user: Iterable[FileEntry],
    workspace: Iterable[FileEntry],
    *,
    trusted: bool | None,
    problems: list[str],
) -> dict[str, ProviderConfig]:
    """All providers by lower-cased name; the workspace wins over the user.

    A workspace that is not trusted cannot give an address, nor enable what the user disabled.
    """
    providers = {name: ProviderConfig(name, _kind(name)) for name in KNOWN_PROVIDERS}
    for entry in user:
        providers[entry.name.lower()] = _with_file(providers, entry, "user")
    for name, setting in settings.providers.items():
        old = providers.get(name.lower()) or ProviderConfig(name.lower(), _kind(name.lower()))
        providers[old.name] = replace(
            old,
            kind=setting.kind or old.kind,
            api_base=setting.api_base or old.api_base,
            key_name=setting.key_name or old.key_name,
            enabled=not setting.disabled,
            source="user",
            source_detail="[agent.providers] of config.toml",
        )
    for entry in workspace:
        name = entry.name.lower()
        if not trusted:
            if entry.api_base is not None and trusted is False:
                problems.append(
                    f"{entry.source_detail}: apiBase of {name} is ignored, since the file is not trusted; "
                    f"next step: lmtb trust {shlex.quote(str(Path(entry.source_detail).parent.parent))}"
                )
            enabled = entry.enabled if name not in providers or providers[name].enabled else None
            providers[name] = _with_file(
                providers, entry._replace(api_base=None, enabled=enabled), "workspace"
            )
        else:
            providers[name] = _with_file(providers, entry, "workspace")
    return providers


def _kind(name: str) -> str:
    return _KINDS.get(name, "openai")


def _with_file(providers: Mapping[str, ProviderConfig], entry: FileEntry, source: Source) -> ProviderConfig:
    name = entry.name.lower()
    old = providers.get(name) or ProviderConfig(name, _kind(name))
    return replace(
        old,
        enabled=old.enabled if entry.enabled is None else entry.enabled,
        api_base=entry.api_base or old.api_base,
        models=entry.models or old.models,
        source=source,
        source_detail=entry.source_detail,
    )


def _read_user_file(path: Path, problems: list[str]) -> bytes | None:
    try:
        return private_files.read(path, _LARGEST, private=False)
    except (private_files.UnsafePathError, OSError) as error:
        problems.append(str(error))
        return None


def _read_project_file(path: Path, problems: list[str]) -> bytes | None:
    """The content of a project's file. A link could lead to any file of the user."""
    try:
        return project_file.read(path, _LARGEST)
    except (private_files.UnsafePathError, OSError) as error:
        problems.append(str(error))
        return None


def _digest(content: bytes | None) -> str:
    return "sha256:" + hashlib.sha256(content or b"").hexdigest()


def _entries(path: Path, content: bytes | None, problems: list[str]) -> list[FileEntry]:
    try:
        document = msgspec.json.decode(content) if content is not None else {}
    except (msgspec.DecodeError, RecursionError):
        from lm_tools_bridge.text.jsonc_parser import json_problem  # noqa: PLC0415  only for broken files

        problem = json_problem((content or b"").decode(errors="replace"))
        problems.append(f"{path}, {problem.sentence()}")
        return []
    entries = document.get("providers", []) if isinstance(document, dict) else None
    if not isinstance(entries, list):
        problems.append(f'{path} is not a JSON object with an array "providers"; correct it')
        return []
    named_entries = [entry for entry in entries if isinstance(entry, dict) and _text(entry.get("name"))]
    usable = [
        entry
        for entry in named_entries
        if entry["name"].isprintable() and len(entry["name"]) <= _LONGEST_NAME
    ]
    if len(usable) < len(named_entries):
        problems.append(
            f"{path}: a provider is left out, since its name has control characters or is too long"
        )
    return [_entry(entry, str(path)) for entry in usable]


def _entry(entry: Mapping[str, Any], path: str) -> FileEntry:
    models = entry.get("models")
    enabled = entry.get("enabled")
    return FileEntry(
        entry["name"],
        enabled if isinstance(enabled, bool) else None,
        _text(entry.get("apiBase")),
        tuple(name for name in models if isinstance(name, str) and name.isprintable())
        if isinstance(models, list)
        else (),
        path,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
