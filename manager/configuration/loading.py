"""Loads the settings of the manager from their sources, and reports all invalid values at once.

Sources, lowest priority first: defaults, the user's `config.toml`, environment variables `LMTB_…`, command
line options.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from lm_tools_bridge.text.key_lines import line_of
from lm_tools_bridge.text.near_names import did_you_mean
from manager.configuration import client_overrides
from manager.configuration.settings import BY_CLIENT, FIELDS, Settings

ENV_PREFIX = "LMTB_"
_PLACES = frozenset({"LMTB_CONFIG_DIR", "LMTB_STATE_DIR", "LMTB_RUNTIME_DIR"})
"""Environment names that move folders (see `paths.py`); they are not settings."""
_OF_CHILDREN = frozenset({"LMTB_CHILD", "LMTB_WORKSPACE"})
"""What a server or script that we run sees, and therefore every `lmtb` that it starts."""
_OF_OTHERS = ("LMTB_TOOL_", "LMTB_SECRET_")
"""So begin more of what scripts see, and the user's secrets, which workspace servers read."""
_OF_THE_AGENT = "agent"
"""The table of `config.toml` that belongs to the terminal agent, which checks it itself."""


class ConfigurationError(Exception):
    """The configuration cannot be used. The message names setting, origin and problem."""


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
    try:
        content = config_file.read_bytes() if config_file.exists() else b""
        given: dict[str, tuple[str, Any]] = {
            name: (_place(config_file, content, name), value)
            for name, value in tomllib.loads(content.decode("utf-8-sig")).items()
            if name != _OF_THE_AGENT
        }
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{config_file} cannot be read: {error}") from error
    for name in FIELDS:
        variable = ENV_PREFIX + name.upper()
        if variable in environ:
            given[name] = f"environment variable {variable}", environ[variable]
        if flags.get(name) is not None:
            given[name] = f"--{name.replace('_', '-')}", flags[name]
    return _settled(given)


def _place(file: Path, content: bytes, name: str) -> str:
    line = line_of(content, name)
    return str(file) if line is None else f"{file}, line {line}"


def _settled(given: Mapping[str, tuple[str, Any]]) -> Settings:
    """The settings of these values, each with its origin; all that does not fit is said at once."""
    problems, values = [], {}
    for name, (origin, value) in given.items():
        try:
            values[name] = _checked(name, value)
        except ValueError as error:
            problems.append(f"{name} ({origin}): {error}")
    settings = Settings(**values)
    if not problems and settings.port_range_end < settings.port_range_start:
        origin = given.get("port_range_end", given.get("port_range_start", ("default",)))[0]
        problems.append(f"port_range_end ({origin}): is less than port_range_start")
    if problems:
        raise ConfigurationError("; ".join(problems))
    return settings


def _checked(name: str, value: Any) -> Any:
    """The value of a setting; texts are read where it is no text.

    Raises:
        ValueError: it does not fit; the message says why.
    """
    if name not in FIELDS:
        raise ValueError(f"there is no such setting{did_you_mean(name, FIELDS)}")
    if name in BY_CLIENT:
        return client_overrides.normal_text(value, BY_CLIENT[name])
    words = get_args(get_args(FIELDS[name].type)[0])
    if words and value not in words:
        raise ValueError(f"must be one of {', '.join(words)}{did_you_mean(str(value), words)}")
    found = msgspec.convert(value, FIELDS[name].type, strict=False)
    if isinstance(found, float) and not math.isfinite(found):
        raise ValueError("is no finite number")
    return found


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    known = {ENV_PREFIX + name.upper() for name in FIELDS} | _PLACES | _OF_CHILDREN
    ours = (name for name in environ if name.startswith(ENV_PREFIX) and not name.startswith(_OF_OTHERS))
    strangers = sorted(name for name in ours if name not in known)
    if strangers:
        hint = did_you_mean(strangers[0], known)
        raise ConfigurationError(
            f"unknown environment variable {strangers[0]}{hint}; `lmtb serve --help` lists the settings"
        )
