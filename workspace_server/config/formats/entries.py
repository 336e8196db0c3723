"""Builds a server from one entry of a configuration file: checks its values and expands placeholders.

`toml_file.py` and `mcp_json.py` first translate the entry into the keys of our TOML. The variables of the
environment that an entry sets are checked here, and its environment file is parsed.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from lm_tools_bridge.text import placeholders
from lm_tools_bridge.text.near_names import did_you_mean, near
from lm_tools_bridge.text.placeholders import PlaceholderValues, UnresolvedPlaceholderError
from workspace_server.config.file_issues import FileIssues, display_name, display_names
from workspace_server.config.formats import restrictions
from workspace_server.config.formats.fields import ConfigValueError, Fields, choice
from workspace_server.config.formats.jsonc import ConfigFileError
from workspace_server.config.formats.sandbox import read_sandbox
from workspace_server.config.model import EntryOrigin, RemoteServer, Sharing, StdioServer
from workspace_server.source import Default
from workspace_server.tool import TaskUse, Visibility

_REFUSED: Final = frozenset({"PATH", "PYTHONPATH", "NODE_OPTIONS"})
_REFUSED_PREFIXES: Final = ("LD_", "DYLD_", "GIT_")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
"""Other line ends of Unicode, such as U+2028 and the form feed, may stand in a value."""
_LINE: Final = re.compile(r"\s*(?:export\s+)?([\w.-]+)\s*=\s*(.*?)\s*\Z", re.DOTALL)
_QUOTED: Final = re.compile(r"""(["'`])(.*)\1\s*(?:#.*)?\Z""", re.DOTALL)


def is_refused(name: str, value: str) -> bool:
    """Whether a workspace's file must not set this variable, because it controls what programs load."""
    upper = name.upper()
    return upper in _REFUSED or upper.startswith(_REFUSED_PREFIXES) or value.startswith("()")


def is_sane(name: str, value: str) -> bool:
    """Whether the operating system accepts this variable."""
    return bool(name) and "=" not in name and "\0" not in name and "\0" not in value


def decode(data: bytes) -> str:
    """The text of an environment file; with its byte order mark UTF-16 is read, too, as Windows writes it."""
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf16 else "utf-8-sig", "replace")


def parse(text: str) -> Mapping[str, str]:
    """The variables of an environment file: `NAME=value` lines, with quotes, `export` and `#` comments.

    Other lines are ignored, as editors do.
    """
    variables: dict[str, str] = {}
    for line in _LINE_END.split(text):
        match = None if line.lstrip().startswith("#") else _LINE.match(line)
        if match is not None:
            variables[match[1]] = _value(match[2])
    return variables


def _value(written: str) -> str:
    quoted = _QUOTED.match(written)
    if quoted is None:
        return written.split(" #", 1)[0].rstrip()
    if quoted[1] == '"':
        return quoted[2].replace("\\n", "\n").replace('\\"', '"')
    return quoted[2]


Server = StdioServer | RemoteServer
Kind = Literal["stdio", "remote"]

MAX_EACH: Final = 20
"""More unknown keys than that are one issue, without their lines."""
# The longest that an entry may ask for: a call blocks its client, a first start may download, a task runs
# alone.
MAX_TIMEOUT_S: Final = 600.0
MAX_START_S: Final = 3600.0
MAX_TASK_S: Final = 24 * 3600.0
UNNAMED: Final = "server"
"""The name of a TOML entry with an empty namespace."""
# Lower similarity offers keys that nobody meant, higher misses a swapped pair of letters in a short key.
_LIKE_A_KEY: Final = 0.75
ALL_TOOLS: Final = "*"
REFUSED_KEYS: Final = frozenset({
    "trusted", "trust", "allow", "autoApprove", "auto_approve", "alwaysAllow", "always_allow", "approvals",
    "approval", "execute_code", "internal_prefix", "visibility",
})  # fmt: skip
"""Keys that only the user's file may have; by most of them a workspace could grant itself rights."""
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_Separator = Literal["__", "_", "-"]
_Transport = Literal["auto", "http", "sse"]
_Auth = Literal["", "oauth"]


@dataclass(frozen=True, slots=True)
class EntryContext:
    """The file of an entry, and how its placeholders are expanded.

    `read` returns the bytes of a file that an entry names, or raises `ConfigFileError`. `restrictions` are
    keys of the file itself that limit all its servers and cannot be kept. `trees` returns the other working
    trees of the project's repository, for which the user's choices count here, too.
    """

    origin: EntryOrigin
    rules: placeholders.PlaceholderRules
    variables: PlaceholderValues
    notes: FileIssues
    read: Callable[[Path], bytes]
    restrictions: tuple[str, ...] = ()
    trees: Callable[[], Sequence[str]] = tuple


def build_server(
    kind: Kind, values: Mapping[str, Any], raw: Mapping[str, Any], context: EntryContext, label: str
) -> Server | None:
    """The server of one entry; None, with an issue that names the entry, if it cannot be used.

    Args:
        kind: whether the entry describes a program or a URL.
        values: the entry with the keys of our TOML.
        raw: the entry as written.
        context: the file of the entry.
        label: the entry's name in issues.
    """
    try:
        return _Builder(Fields(values), raw, context, label).build(kind)
    except ConfigValueError as reason:
        skip(reason, raw, context, label)
    except UnresolvedPlaceholderError as missing:
        message = f"{display_name(missing.name)} has no value; the server is not started"
        message += f": {how_to_set(missing.name)}" if missing.is_variable else ""
        context.notes.error("CONFIG_UNRESOLVED_VARIABLE", message, label)
    return None


def skip(reason: ConfigValueError, raw: Mapping[str, Any], context: EntryContext, label: str) -> None:
    """Report an entry that cannot be used, with the line of the key, or of the entry."""
    key, written = reason.key, [name for name in raw if isinstance(name, str)]
    misspelt = near(key, written, cutoff=_LIKE_A_KEY) if key is not None and key not in raw else []
    instead = f', but there is "{display_name(misspelt[0])}"' if misspelt else ""
    place = key if key in raw else misspelt[0] if misspelt else None
    context.notes.warn("CONFIG_ENTRY_SKIPPED", f"{reason}{instead}; the entry is skipped", label, key=place)


def how_to_set(variable: str) -> str:
    """How the user sets an environment variable for servers, with the line to add."""
    name = display_name(variable)
    return (
        f'write {name}=… into a file outside of git and name that file as "env_file" of the entry; or export'
        f" {name} where your login shell reads it, and run: lmtb restart --servers"
    )


def warn_unknown_keys(
    keys: list[str], context: EntryContext, label: str | None = None, known: Collection[str] = ()
) -> None:
    """Warn about unknown keys, with the nearest known ones, and about keys that a workspace may not set."""
    refused = [key for key in keys if key in REFUSED_KEYS and context.origin.scope == "workspace"]
    unknown = [key for key in keys if key not in refused]
    if refused:
        names = display_names(refused)
        context.notes.warn("CONFIG_KEY_REFUSED", f"a workspace cannot set {names}; it is ignored", label)
    if len(unknown) > MAX_EACH:
        message = f"unknown: {display_names(unknown)}; it is ignored"
        context.notes.warn("CONFIG_UNKNOWN_KEY", message, label)
        return
    for key in unknown:
        message = f"unknown: {display_name(key)}; it is ignored{did_you_mean(key, known)}"
        context.notes.warn("CONFIG_UNKNOWN_KEY", message, label, key=key)


class _Builder:
    def __init__(self, fields: Fields, raw: Mapping[str, Any], context: EntryContext, label: str) -> None:
        self._fields = fields
        self._raw = raw
        self._context = context
        self._label = label
        self._enabled = fields.flag("enabled", True)
        self._files: dict[str, bytes] = {}
        self._defaulted: list[str] = []

    def build(self, kind: Kind) -> Server:
        built = self._stdio() if kind == "stdio" else self._remote()
        ignored = self._fields.texts(restrictions.IGNORED)
        unkept = restrictions.unkept(self._raw_values(), self._fields.left, ignored)
        known_keys = [*unkept, *ignored]
        left = [key for key in self._fields.left if key not in known_keys]
        warn_unknown_keys(left, self._context, self._label, self._fields.taken)
        unkept += [key for key in self._context.restrictions if key not in ignored]
        return replace(built, unkept=tuple(unkept)) if unkept else built

    def _raw_values(self) -> Mapping[str, Any]:
        return {key: self._fields.peek(key) for key in self._fields.left}

    def _stdio(self) -> StdioServer:
        command = self._fields.texts("command")
        if not command or not command[0].strip():
            raise ConfigValueError('"command" is missing')
        return StdioServer(
            command=tuple(self._expand(word, path=True) for word in command),
            env=self._env(),
            env_secrets=self._env_secrets(),
            cwd=self._folder(self._fields.text("cwd")),
            sharing=self._fields.choice("sharing", Sharing, "workspace"),
            files=self._files,
            data=tuple(self._expand(word, path=True) for word in self._fields.texts("data")),
            sandbox=read_sandbox(self._fields, self._folder),
            **self._common(),
        )

    def _remote(self) -> RemoteServer:
        fields = self._fields
        tokens = {key: fields.text(key) for key in ("token", "token_env", "token_secret")}
        token_keys = [key for key, value in tokens.items() if value]
        if len(token_keys) > 1:
            raise ConfigValueError(f"{' and '.join(token_keys)} exclude each other")
        return RemoteServer(
            url=self._url(fields.required("url")),
            token=self._expand(tokens["token"]),
            token_env=tokens["token_env"],
            token_secret=tokens["token_secret"],
            auth=fields.choice("auth", _Auth, ""),
            client_id=self._expand(fields.text("client_id")),
            client_secret=self._expand(fields.text("client_secret")),
            scope=fields.text("scope"),
            headers=self._headers(),
            transport=fields.choice("transport", _Transport, "auto"),
            allow_private=fields.flag("allow_private"),
            **self._common(),
        )

    def _common(self) -> dict[str, Any]:
        fields = self._fields
        visibility, visibilities = self._visibility(fields.take("tool_visibility"))
        task = _task(fields)
        include, exclude = restrictions.tool_lists(fields)
        call_s = call_limit_s(fields, MAX_TIMEOUT_S) or 120.0
        longest = MAX_TIMEOUT_S if task == "forbidden" else MAX_TASK_S
        return {
            **self._named(),
            "origin": self._context.origin,
            "enabled": self._enabled,
            "visibility": visibility,
            "visibilities": visibilities,
            "separator": fields.choice("separator", _Separator, "__"),
            "include": include,
            "exclude": exclude,
            "keywords": fields.texts("keywords"),
            "default": fields.choice("default", Default, "enabled"),
            "timeout_s": fields.number("timeout_s", call_s, 1.0, longest),
            "start_timeout_s": start_limit_s(fields, self._raw, MAX_START_S),
            "task": task,
            "apps": fields.flag("apps", True),
            "raw": self._raw,
            "defaulted": tuple(dict.fromkeys(self._defaulted)),
        }

    def _named(self) -> dict[str, Any]:
        """The entry's namespace; in JSON files that is its key."""
        bare = self._raw.get("namespace") == ""
        name = self._fields.text("namespace").strip()
        if not name and not bare:
            raise ConfigValueError('"namespace" is missing')
        return {"namespace": _UNFIT.sub("_", name) or UNNAMED, "bare": bare}

    def _visibility(self, value: Any) -> tuple[Visibility, Mapping[str, Visibility]]:
        """One word for all tools, or a table by tool name in which `*` means all others."""
        if value is None:
            return "native", {}
        if not isinstance(value, Mapping):
            return choice("tool_visibility", value, Visibility), {}
        each = {str(tool): choice("tool_visibility", word, Visibility) for tool, word in value.items()}
        return each.pop(ALL_TOOLS, "native"), each

    def _expand(self, text: str, *, path: bool = False) -> str:
        """The text with its placeholders expanded; in a disabled entry, unresolved ones are kept."""
        values, rules = self._context.variables, self._context.rules
        self._defaulted += values.defaulted(text, rules)
        try:
            expanded = values.expand_path(text, rules) if path else values.expand(text, rules)
        except UnresolvedPlaceholderError:
            if self._enabled:
                raise
            return text
        if "\0" in expanded:
            raise ConfigValueError("a value contains a NUL character")
        return expanded

    def _folder(self, written: str) -> str:
        root = os.fspath(self._context.variables.root)
        return os.path.normpath(os.path.join(root, self._expand(written, path=True))) if written else root  # noqa: PTH118 - text

    def _env(self) -> Mapping[str, str]:
        variables = dict(self._env_file(self._fields.text("env_file")))
        for name, written in self._fields.pairs("env").items():
            variables[name] = self._expand(written)
        if not all(is_sane(name, value) for name, value in variables.items()):
            raise ConfigValueError('"env" contains an invalid name or value')
        if self._context.origin.scope == "user":
            return variables
        refused = [name for name, value in variables.items() if is_refused(name, value)]
        if refused:
            message = f"a workspace cannot set {display_names(refused)}; left out"
            self._context.notes.warn("CONFIG_ENVIRONMENT_REFUSED", message, self._label)
        return {name: value for name, value in variables.items() if name not in refused}

    def _env_secrets(self) -> Mapping[str, str]:
        """Variables whose values are stored secrets; a workspace may not name those that steer programs."""
        names = self._fields.pairs("env_secrets")
        if not all(is_sane(variable, secret) and secret for variable, secret in names.items()):
            raise ConfigValueError('"env_secrets" contains an invalid name')
        refused = [variable for variable in names if is_refused(variable, "")]
        if refused and self._context.origin.scope == "workspace":
            raise ConfigValueError(f'"env_secrets" of a workspace cannot set {display_names(refused)}')
        return names

    def _env_file(self, written: str) -> Mapping[str, str]:
        if not written or not self._enabled:
            return {}
        path = Path(self._folder(written))
        try:
            data = self._context.read(path)
        except ConfigFileError as problem:
            raise ConfigValueError(f'the file of "env_file": {problem.reason}') from None
        self._files[written] = data
        return parse(decode(data))

    def _url(self, written: str) -> str:
        """The address as it is written: servers may answer `/mcp/` or `?root=/data/`, and nothing else."""
        url = self._expand(written.strip())
        if not self._enabled:
            return url
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ConfigValueError('"url" is not a valid URL') from None
        if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f]", url):
            raise ConfigValueError('"url" must be an http or https URL with a host')
        if parts.username is not None or parts.password is not None:
            raise ConfigValueError('"url" contains credentials; use "token" or "headers"')
        return url

    def _headers(self) -> Mapping[str, str]:
        written = self._fields.pairs("headers")
        headers = {name: self._expand(value) for name, value in written.items()}
        for name, value in headers.items():
            if _HEADER_NAME.fullmatch(name) is None or re.search(r"[\r\n\0]", value):
                raise ConfigValueError('"headers" contains an invalid name or value')
        return headers


def _task(fields: Fields) -> TaskUse:
    if fields.take("task") == "required":
        return "required"
    return "optional" if fields.flag("task") else "forbidden"


def infer_kind(values: Mapping[str, Any]) -> Kind | None:
    """The kind of an entry without a type: `stdio` if it has a command, `remote` if it has a URL."""
    if values.get("command") is not None:
        return "stdio"
    return "remote" if values.get("url") is not None else None


START: Final = "start_timeout_s"
_UNITS: Final = r"(ms|millis|milliseconds|s|sec|secs|seconds)?"
_START: Final = re.compile(
    r"(?:start|startup|init|initialize|initialization|connect|connection)timeout" + _UNITS
)
_CALL: Final = re.compile(r"(?:tool|toolcall|call|request|execution)timeout" + _UNITS)
_USUAL_MS: Final = 30_000.0
"""The usual limit of a start that shows no life (`Timeouts.start_s`)."""
_LEAST_MS: Final = 1000.0
"""Without a unit, less than this is taken for seconds: nobody means a second or less."""


def start_limit_s(fields: Fields, written: Mapping[str, Any], longest_s: float) -> float | None:
    """The longest duration of a start; None if the entry does not say.

    Clients that have one `timeout` for everything apply it to the start as well, so that a long one allows a
    long start; a short one is a limit of calls.

    Args:
        fields: the entry with our keys.
        written: the entry as written.
        longest_s: the longest duration that can be set.
    """
    if fields.has(START):
        return fields.number(START, 0.0, 1.0, longest_s)
    fields.take(START)
    limit_s = _limit_s(fields, _START, longest_s)
    if limit_s is not None:
        return limit_s
    both = written.get("timeout")
    if "timeout" in fields.left or isinstance(both, bool) or not isinstance(both, int | float):
        return None
    return min(both / 1000, longest_s) if both > _USUAL_MS else None


def call_limit_s(fields: Fields, longest_s: float) -> float | None:
    """The longest duration of a call by a client's name for it; None if the entry has no such key."""
    return _limit_s(fields, _CALL, longest_s)


def _limit_s(fields: Fields, names: re.Pattern[str], longest_s: float) -> float | None:
    limit_s = None
    for key in fields.left:
        match = names.fullmatch(re.sub("[_-]", "", key).lower())
        if match is None:
            continue
        value = fields.take(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigValueError(f'"{key}" must be a positive number')
        is_ms = match[1].startswith("m") if match[1] else value >= _LEAST_MS
        limit_s = min(max(value / 1000 if is_ms else value, 1.0), longest_s)
    return limit_s
