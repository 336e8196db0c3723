"""Every setting of the manager: one frozen, documented value, and how it is loaded.

Order, lowest first: defaults, the user's `config.toml`, environment variables `LMTB_…`, command-line
flags. `docs/configuration.md` is checked against this model by a test.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

ENV_PREFIX = "LMTB_"
_PLACES = frozenset({"LMTB_CONFIG_DIR", "LMTB_STATE_DIR", "LMTB_RUNTIME_DIR"})
"""Environment names that move folders (see `paths.py`); they are not settings."""
_OF_CHILDREN = frozenset({"LMTB_CHILD", "LMTB_WORKSPACE"})
"""What a server or script that we run sees, and therefore every `lmtb` that it starts."""
_OF_OTHERS = ("LMTB_TOOL_", "LMTB_SECRET_")
"""So begin more of what scripts see, and the user's secrets, which workspace servers read."""
_MIB = 1024 * 1024


class ConfigurationError(Exception):
    """The configuration cannot be used. The message names setting, origin and problem."""


class Settings(BaseSettings):
    """The manager's settings. Times are in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="forbid", allow_inf_nan=False)

    http_port: int = Field(
        47100, ge=0, le=65535, description="Port of the MCP endpoint; 0 lets the system choose."
    )
    auto_start: bool = Field(
        True, description="Start a server for a folder that is marked as a project but not known yet."
    )
    fork_servers: bool = Field(
        True,
        description="Fork workspace servers from a process that has all loaded and takes 40 MB (Linux only).",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least level that is logged."
    )
    log_format: Literal["auto", "console", "json"] = Field(
        "auto", description="How log lines look; auto means console on a terminal and JSON elsewhere."
    )

    call_timeout_s: float = Field(120, gt=0, le=3600, description="Longest a forwarded call may take.")
    start_timeout_s: float = Field(
        30, gt=0, le=600, description="Longest a workspace server may take until it answers."
    )
    match_wait_s: float = Field(
        5, ge=0, le=60, description="How long a handshake waits for a server that is just registering itself."
    )
    announce_hold_s: float = Field(
        0.4,
        ge=0,
        le=10,
        description="How long a handshake's answer waits for the client to list again after list_changed.",
    )
    roots_wait_s: float = Field(
        5, ge=0, le=60, description="How long a client that was asked for its roots has to answer."
    )
    drain_s: float = Field(30, ge=0, le=600, description="How long calls in flight may go on while stopping.")

    session_limit: int = Field(10_000, ge=1, description="Most legacy sessions at a time.")
    session_idle_s: float = Field(
        5 * 3600, gt=0, description="A used session ends after this long without a request."
    )
    session_unused_s: float = Field(
        15 * 60, gt=0, description="A session never used after initialize ends after this."
    )

    workspace_idle_s: float = Field(
        15 * 60, ge=0, description="A workspace server without work stops after this long; 0 means never."
    )
    grace_s: float = Field(
        60,
        ge=0,
        description="How long workspace servers outlive a manager that vanished, waiting for a new one.",
    )
    health_interval_s: float = Field(
        5, gt=0, description="Time between two health requests to a workspace server."
    )
    health_timeout_s: float = Field(1, gt=0, description="Longest a health request may take.")
    health_misses: int = Field(
        3, ge=1, description="Missed health requests in a row that make a server unhealthy."
    )
    hung_restart_s: float = Field(
        30, gt=0, description="A server that hangs this long is killed and started anew."
    )
    port_range_start: int = Field(21000, ge=1024, le=65535, description="First port for workspace servers.")
    port_range_end: int = Field(29999, ge=1024, le=65535, description="Last port for workspace servers.")

    body_limit: int = Field(16 * _MIB, ge=1024, description="Largest request body.")
    response_limit: int = Field(
        32 * _MIB, ge=1024, description="Largest answer that is collected, or single event."
    )
    header_timeout_s: float = Field(10, gt=0, description="Longest a request's head may take to arrive.")
    body_timeout_s: float = Field(30, gt=0, description="Longest a request's body may take to arrive.")
    keep_alive_s: float = Field(75, gt=0, description="An idle client connection is closed after this long.")
    connection_limit: int = Field(2048, ge=8, description="Most client connections at a time.")
    in_flight_limit: int = Field(
        2000, ge=1, description="Most calls in flight at a time, all workspaces together."
    )
    workspace_in_flight_limit: int = Field(
        256, ge=1, description="Most calls in flight at a time in one workspace."
    )

    @field_validator("port_range_end")
    @classmethod
    def _range_holds_a_port(cls, end: int, info: ValidationInfo) -> int:
        if end < info.data.get("port_range_start", end):
            raise ValueError("is less than port_range_start")
        return end

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags beat the environment, which beats the file. No dotenv: a stray file must not configure us."""
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls))


def load_settings(config_file: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Settings:
    """Load the settings.

    Args:
        config_file: the user's file; it may be missing.
        environ: the process environment.
        flags: settings given on the command line; None values count as absent.

    Raises:
        ConfigurationError: a value does not fit, a name is unknown, or the file is no TOML.
    """
    _refuse_unknown_variables(environ)
    given = {name: value for name, value in flags.items() if value is not None}

    class Loaded(Settings):
        model_config = SettingsConfigDict(toml_file=config_file)

    try:
        return Loaded(**given)
    except ValidationError as error:
        raise ConfigurationError(_explain(error, config_file, environ, given)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{config_file} cannot be read: {error}") from error


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | _PLACES | _OF_CHILDREN
    ours = (name for name in environ if name.startswith(ENV_PREFIX) and not name.startswith(_OF_OTHERS))
    strangers = sorted(name for name in ours if name not in known)
    if strangers:
        raise ConfigurationError(
            f"unknown environment variable {strangers[0]}; settings are listed in docs/configuration.md"
        )


def _explain(
    error: ValidationError, config_file: Path, environ: Mapping[str, str], flags: Mapping[str, Any]
) -> str:
    lines = []
    for problem in error.errors():
        name = str(problem["loc"][0]) if problem["loc"] else "configuration"
        lines.append(f"{name} ({_origin(name, config_file, environ, flags)}): {problem['msg']}")
    return "; ".join(lines)


def _origin(name: str, config_file: Path, environ: Mapping[str, str], flags: Mapping[str, Any]) -> str:
    if name in flags:
        return f"--{name.replace('_', '-')}"
    variable = ENV_PREFIX + name.upper()
    return f"environment variable {variable}" if variable in environ else str(config_file)
