"""Defines every setting of the manager, loads the values, and reports all invalid ones at once.

Sources, lowest priority first: defaults, the user's `config.toml`, environment variables `LMTB_…`, command
line options. A test checks `docs/configuration.md` against this model.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from lm_tools_bridge.protocol.names import USUAL_PORT
from lm_tools_bridge.text.near_names import did_you_mean
from lm_tools_bridge.text.toml_text import line_of
from manager.configuration import client_overrides

BY_CLIENT: Mapping[str, Callable[[str], object]] = {
    "first_list_s": client_overrides.seconds,
    "model_sees": client_overrides.sees,
    "hears_list_changed": client_overrides.hears,
    "own_files": client_overrides.project_files,
    "has_file_tools": client_overrides.yes_or_no,
}
"""Settings that may differ by client, and how one value is read. They are fields of a client's profile."""
# Bytes.
_MIB = 1024 * 1024


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The manager's settings. Times are in seconds, sizes in bytes."""

    http_port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the MCP endpoint; 0 lets the system choose.")
    ] = USUAL_PORT
    tcp: Annotated[
        bool,
        Meta(description="Listen on the port; without it only other hosts of this user are served, by ssh."),
    ] = True
    auto_start: Annotated[
        bool,
        Meta(description="Start servers for new project folders (recognised by .git and similar marks)."),
    ] = True
    fork_servers: Annotated[
        bool,
        Meta(description="Fork workspace servers from a preloaded process of 40 MB (Linux only)."),
    ] = True
    require_token: Annotated[
        bool,
        Meta(description="Ask every connection for a token of lmtb token create, also those of your user."),
    ] = False
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Lowest level that is logged.")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "console", "json"],
        Meta(description="Format of log lines; auto means console on a terminal and JSON elsewhere."),
    ] = "auto"

    call_timeout_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="Deadline of a call of a registered server, in seconds."),
    ] = 120
    call_limit_s: Annotated[
        float,
        Meta(gt=0, le=7200, description="Deadline of any call; our workspace servers limit each tool."),
    ] = 660
    approval_wait_s: Annotated[
        float,
        Meta(
            ge=0,
            le=600,
            description="Seconds a call waits for approval if its client cannot ask; 0 refuses it at once.",
        ),
    ] = 50
    start_timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="Deadline for the start of a workspace server, in seconds.")
    ] = 30
    match_wait_s: Annotated[
        float,
        Meta(
            ge=0,
            le=60,
            description="Seconds a handshake waits for a server that is registering itself.",
        ),
    ] = 5
    announce_hold_s: Annotated[
        float,
        Meta(
            ge=0,
            le=10,
            description="Seconds a handshake's result waits for a new tools/list after list_changed.",
        ),
    ] = 0.4
    first_list_s: Annotated[
        str,
        Meta(
            description="Seconds that clients wait for their first tool list, such as my-agent=20, other=5."
        ),
    ] = ""
    model_sees: Annotated[
        str,
        Meta(description="What of a result models see (text, structured, both), such as my-agent=both."),
    ] = ""
    hears_list_changed: Annotated[
        str,
        Meta(
            description="Whether clients list again after a change (always, never), such as my-agent=never."
        ),
    ] = ""
    own_files: Annotated[
        str,
        Meta(description="Project files whose servers clients start, such as my-agent=.mcp.json, or none."),
    ] = ""
    hide_own_servers: Annotated[
        bool,
        Meta(description="Leave servers that a client starts itself (.mcp.json …) out of its tool list."),
    ] = True
    has_file_tools: Annotated[
        str,
        Meta(description="Whether clients read and search files themselves (yes, no), such as my-agent=yes."),
    ] = ""
    roots_wait_s: Annotated[
        float, Meta(ge=0, le=60, description="Seconds a client has to answer a roots/list request.")
    ] = 5
    drain_s: Annotated[
        float,
        Meta(ge=0, le=600, description="Seconds that calls in flight may take to finish while stopping."),
    ] = 30

    desktop_notifications: Annotated[
        bool,
        Meta(description="Notify the desktop of what waits for you; needs the extra desktop (Linux)."),
    ] = True

    session_limit: Annotated[int, Meta(ge=1, description="Most sessions at a time.")] = 10_000
    session_idle_s: Annotated[
        float, Meta(gt=0, description="Seconds without a request after which a used session ends.")
    ] = 5 * 3600
    session_unused_s: Annotated[
        float,
        Meta(gt=0, description="Seconds after which a session ends that was not used after initialize."),
    ] = 15 * 60

    workspace_idle_s: Annotated[
        float,
        Meta(ge=0, description="Seconds without a call after which a workspace server stops; 0 means never."),
    ] = 15 * 60
    grace_s: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds that workspace servers wait for a new manager after theirs is gone.",
        ),
    ] = 60
    health_interval_s: Annotated[
        float, Meta(gt=0, description="Seconds between two health requests to a workspace server.")
    ] = 5
    health_timeout_s: Annotated[
        float, Meta(gt=0, description="Deadline of a health request, in seconds.")
    ] = 1
    health_misses: Annotated[
        int, Meta(ge=1, description="Missed health requests in a row that make a server unhealthy.")
    ] = 3
    hung_restart_s: Annotated[
        float,
        Meta(gt=0, description="Seconds after which a hanging workspace server is killed and restarted."),
    ] = 30
    port_range_start: Annotated[
        int, Meta(ge=1024, le=65535, description="First port for workspace servers.")
    ] = 21000
    port_range_end: Annotated[
        int, Meta(ge=1024, le=65535, description="Last port for workspace servers.")
    ] = 29999

    record_calls: Annotated[
        bool, Meta(description="Record who called which tool, when, and with which outcome (lmtb calls).")
    ] = True
    record_size: Annotated[
        int, Meta(ge=_MIB, description="Largest database of recorded calls, in bytes.")
    ] = 200 * _MIB
    record_days: Annotated[float, Meta(gt=0, le=3650, description="Days that recorded calls are kept.")] = 14
    record_contents_days: Annotated[
        float,
        Meta(gt=0, le=3650, description="Days that recorded arguments and results are kept."),
    ] = 2
    record_hidden_keys: Annotated[
        str,
        Meta(description="Members hidden in recorded contents, besides secrets: names separated by commas."),
    ] = ""
    make_trace_context: Annotated[
        bool,
        Meta(description="Give recorded calls a W3C traceparent if the client sends none."),
    ] = True

    body_limit: Annotated[int, Meta(ge=1024, description="Largest request body, in bytes.")] = 16 * _MIB
    response_limit: Annotated[
        int, Meta(ge=1024, description="Largest buffered response or single event, in bytes.")
    ] = 32 * _MIB
    buffer_limit: Annotated[
        int,
        Meta(ge=1024 * 1024, description="Most bytes of all large requests and responses held at a time."),
    ] = 48 * _MIB
    header_timeout_s: Annotated[
        float, Meta(gt=0, description="Deadline for the head of a request, in seconds.")
    ] = 10
    body_timeout_s: Annotated[
        float, Meta(gt=0, description="Deadline for the body of a request, in seconds.")
    ] = 30
    client_read_timeout_s: Annotated[
        float,
        Meta(gt=0, description="Seconds after which a client is closed that reads nothing of its responses."),
    ] = 30
    keep_alive_s: Annotated[
        float, Meta(gt=0, description="Seconds after which an idle client connection is closed.")
    ] = 75
    connection_limit: Annotated[
        int,
        Meta(
            ge=8, description="Most client connections at a time; fewer if the system allows few open files."
        ),
    ] = 2048
    in_flight_limit: Annotated[
        int, Meta(ge=1, description="Most calls in flight at a time, all workspaces together.")
    ] = 2000
    workspace_in_flight_limit: Annotated[
        int, Meta(ge=1, description="Most calls in flight at a time in one workspace.")
    ] = 256


def by_client(settings: Settings) -> dict[str, dict[str, object]]:
    """The settings that may differ by client -> their values by the name or pattern of the client."""
    return {
        name: client_overrides.by_client(getattr(settings, name), read) for name, read in BY_CLIENT.items()
    }


FIELDS: Mapping[str, msgspec.structs.FieldInfo] = {
    field.name: field for field in msgspec.structs.fields(Settings)
}
"""Name -> type with bounds and description, and default."""


def description(name: str) -> str:
    """The help text of a setting."""
    meta: Meta = FIELDS[name].type.__metadata__[0]
    return meta.description or ""


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
        values: dict[str, tuple[str, Any]] = {
            name: (_place(config_file, content, name), value)
            for name, value in tomllib.loads(content.decode("utf-8-sig")).items()
            if name != _OF_THE_AGENT
        }
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{config_file} is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        from lm_tools_bridge.text.syntax_problems import toml_problem  # noqa: PLC0415  only for broken files

        problem = toml_problem(error, content.decode("utf-8-sig"))
        raise ConfigurationError(f"{config_file}, {problem.sentence()}") from error
    except OSError as error:
        raise ConfigurationError(f"{config_file} cannot be read: {error.strerror}") from error
    for name in FIELDS:
        variable = ENV_PREFIX + name.upper()
        if variable in environ:
            values[name] = f"environment variable {variable}", environ[variable]
        if flags.get(name) is not None:
            values[name] = f"--{name.replace('_', '-')}", flags[name]
    return _make_settings(values)


def _place(file: Path, content: bytes, name: str) -> str:
    line = line_of(content, name)
    return str(file) if line is None else f"{file}, line {line}"


def _make_settings(values_by_name: Mapping[str, tuple[str, Any]]) -> Settings:
    """The settings of these values, each with its origin; all that does not fit is said at once."""
    problems, values = [], {}
    for name, (origin, value) in values_by_name.items():
        try:
            values[name] = _check_value(name, value)
        except ValueError as error:
            problems.append(f"{name} ({origin}): {error}")
    settings = Settings(**values)
    if not problems and settings.port_range_end < settings.port_range_start:
        origin = values_by_name.get("port_range_end", values_by_name.get("port_range_start", ("default",)))[0]
        problems.append(f"port_range_end ({origin}): is less than port_range_start")
    if problems:
        raise ConfigurationError("; ".join(problems))
    return settings


def _check_value(name: str, value: Any) -> Any:
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
    try:
        converted = msgspec.convert(value, FIELDS[name].type, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(_needed(name, str(error))) from None
    if isinstance(converted, float) and not math.isfinite(converted):
        raise ValueError("is no finite number")
    return converted


def _needed(name: str, mistake: str) -> str:
    """What a setting needs, for a value that does not fit."""
    field = FIELDS[name]
    kind, bounds = get_args(field.type)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}.get(kind)
    if words is None or not mistake.startswith("Expected"):
        return mistake
    limits = [
        f"{word} {bound:g}"
        for word, bound in (("at least", bounds.ge), ("at most", bounds.le))
        if bound is not None
    ]
    between = f" of {' and '.join(limits)}" if limits else ""
    return f"must be {words}{between}, such as {json.dumps(field.default)}"


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    names = {ENV_PREFIX + name.upper() for name in FIELDS} | _PLACES | _OF_CHILDREN
    ours = (name for name in environ if name.startswith(ENV_PREFIX) and not name.startswith(_OF_OTHERS))
    strangers = sorted(name for name in ours if name not in names)
    if strangers:
        hint = did_you_mean(strangers[0], names)
        raise ConfigurationError(
            f"unknown environment variable {strangers[0]}{hint}; `lmtb serve --help` lists the settings"
        )
