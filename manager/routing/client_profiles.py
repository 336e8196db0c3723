"""Knows what client programs can do: how long they wait for lists, what they hear, what their model sees.

Found by the name and version in `clientInfo`. The values were measured with the named versions.
`docs/build/profiles.md` shows the same table, and a test compares them. A workspace server knows no
clients: headers tell it what of a profile matters to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from lm_tools_bridge.protocol import headers
from lm_tools_bridge.protocol.internal import client_files
from lm_tools_bridge.protocol.internal.client_traits import OFFERED_LENGTH, ClientTraits, NameRules
from manager.configuration.client_overrides import EVERY, Hears, Sees

Deferred = Literal["nothing", "names", "beginnings"]
"""What of a tool that a client defers is in its first model request; beginnings are those of descriptions."""
RootsChange = Literal["never", "told", "silently"]
"""Whether a client's roots change within a session, and whether it tells so."""
LATER_LIST_S: Final = 2.0
"""Seconds that a list may wait for sources once the client has had its first list."""
MIN_LIST_S: Final = 0.1
"""Seconds that every list may wait: a server that runs answers within them, whatever the client's time is."""
_MAX_KNOWN: Final = 256
"""Names and versions of clients whose profile is kept. A user has a dozen programs; a client can send a new
name each time."""
_VERSION: Final = "@"
"""What separates the version from the name in a pattern of clients."""


class ClientProfile(NamedTuple):
    """What one client program can do. Times are in seconds; None means without limit.

    Attributes:
        title: The name of the program.
        names: Patterns of its name in `clientInfo`, in lower case; `name@2.*` is for these versions only.
        measured: The versions that were measured; empty for an assumption.
        first_list_s: How long `initialize` (or `server/discover`) and the first list may take together, so
            that its first model request has the tools.
        hears_list_changed: Whether it lists again after `list_changed`.
        silent_call_s: How long a call may be silent before the response begins.
        silent_stream_s: How long a call's event stream may be silent.
        is_extended_by_progress: Whether progress notifications extend these limits.
        model_sees: What of a result with text and structured content reaches the model. Where that is
            unknown, results are not changed.
        longest_name: Longest tool name including its prefix.
        name_prefix: What it puts before tool names; `{}` is the name of the server in its configuration.
        reads_all_pages: Whether it follows `nextCursor`.
        own_files: Files of a project whose MCP servers it starts itself.
        defers_tools: Whether its first model request lacks the tools: a search of the client finds them.
        deferred_as: What of such tools is in that request.
        own_tool_search: Whether the client itself has a tool named `tool_search`.
        repeats_instructions: Whether its model reads a server's instructions again with each of its tools.
        separator: What stands between a namespace and a tool's name; some clients refuse names with `__`.
        plain_names: Whether it passes names unchanged to model APIs, which allow `[A-Za-z0-9_-]` only.
        drops_links: Whether a bare resource link reaches the model as nothing.
        has_code_mode: Whether some of its models write code, which gets the text and the structured content.
        roots_change: Whether its roots change in a session; `never` also if it has none.
        has_file_tools: Whether its model reads and searches files, and runs commands, with tools of the
            client: ours for that are then left out of its list.
    """

    title: str
    names: tuple[str, ...]
    measured: str = ""
    first_list_s: float = 0.9
    hears_list_changed: Hears = "always"
    silent_call_s: float | None = 60
    silent_stream_s: float | None = 60
    is_extended_by_progress: bool = True
    model_sees: Sees = "unknown"
    longest_name: int | None = 64
    name_prefix: str = "mcp__{}__"
    reads_all_pages: bool = True
    own_files: tuple[str, ...] = ()
    defers_tools: bool = False
    deferred_as: Deferred = "nothing"
    own_tool_search: bool = False
    repeats_instructions: bool = False
    separator: Literal["__", "_"] = "__"
    plain_names: bool = False
    drops_links: bool = False
    has_code_mode: bool = False
    roots_change: RootsChange = "told"
    has_file_tools: bool = False


PROFILES: Final = (
    ClientProfile(
        "Claude Code",
        ("claude-code",),
        "2.1.328, 2.1.330, 2.1.332",
        first_list_s=1.8,
        silent_stream_s=300,
        model_sees="structured",
        longest_name=128,
        own_files=(client_files.CLAUDE_CODE.path,),
        defers_tools=True,
        deferred_as="names",
        roots_change="silently",
        has_file_tools=True,
    ),
    ClientProfile(
        "Codex",
        ("codex-mcp-client", "codex*"),
        "0.169.0, 0.171.0",
        first_list_s=0.9,
        hears_list_changed="never",
        silent_call_s=300,
        silent_stream_s=300,
        is_extended_by_progress=False,
        model_sees="structured",
        longest_name=128,
        own_files=(".codex/config.toml",),
        defers_tools=True,
        own_tool_search=True,
        repeats_instructions=True,
        has_code_mode=True,
        roots_change="never",
        has_file_tools=True,
    ),
    ClientProfile(
        "Gemini CLI",
        ("gemini-cli-mcp-client", "gemini-cli*"),
        "0.61.0",
        first_list_s=50,
        hears_list_changed="until stream lost",
        silent_stream_s=300,
        model_sees="text",
        longest_name=63,
        name_prefix="mcp_{}_",
        reads_all_pages=False,
        own_files=(".gemini/settings.json",),
        has_file_tools=True,
    ),
    ClientProfile(
        "opencode",
        ("opencode",),
        "1.18.33",
        first_list_s=25,
        model_sees="text",
        longest_name=None,
        name_prefix="{}_",
        own_files=("opencode.json", "opencode.jsonc"),
        drops_links=True,
        has_file_tools=True,
    ),
    ClientProfile(
        "Copilot CLI",
        ("copilot-cli*",),
        "1.0.102",
        first_list_s=22,
        silent_call_s=90,
        silent_stream_s=90,
        model_sees="both",
        name_prefix="{}-",
        drops_links=True,
        roots_change="never",
        has_file_tools=True,
    ),
    ClientProfile(
        "Qwen Code",
        ("qwen-cli-mcp-client-*",),
        "0.15.10, 0.24.4",
        hears_list_changed="never",
        model_sees="both",
        longest_name=63,
        own_files=(".qwen/settings.json",),
        defers_tools=True,
        deferred_as="beginnings",
        own_tool_search=True,
        has_file_tools=True,
    ),
    ClientProfile(
        "Kilo",
        ("kilo",),
        "7.7.7",
        first_list_s=25,
        model_sees="text",
        longest_name=None,
        name_prefix="{}_",
        own_files=("kilo.json",),
        drops_links=True,
        has_file_tools=True,
    ),
    ClientProfile(
        "Cline",
        ("@cline/core*",),
        "3.0.65",
        hears_list_changed="never",
        model_sees="both",
        name_prefix="{}__",
        roots_change="never",
        has_file_tools=True,
    ),
    ClientProfile(
        "Continue",
        ("continue-cli-client*",),
        "1.5.47",
        first_list_s=13,
        hears_list_changed="never",
        model_sees="text",
        name_prefix="",
        plain_names=True,
        roots_change="never",
        has_file_tools=True,
    ),
    ClientProfile(
        "Grok Build",
        ("grok-shell-*",),
        "1.0.41",
        name_prefix="{}__",
        separator="_",
        roots_change="never",
    ),
    ClientProfile(
        "VS Code", ("visual studio code*", "vscode*"), first_list_s=8, own_files=(client_files.VSCODE.path,)
    ),
    ClientProfile("Cursor", ("cursor*",), first_list_s=8, own_files=(client_files.CURSOR.path,)),
)
OTHER: Final = ClientProfile("other clients", ("*",))
"""The cautious assumption for clients that nobody measured."""


def profile_of(name: str | None, version: str | None = None) -> ClientProfile:
    """The profile of the client with this name and version in its `clientInfo`."""
    return next(
        (one for one in PROFILES if any(_matches(pattern, name, version) for pattern in one.names)), OTHER
    )


def _matches(pattern: str, name: str | None, version: str | None) -> bool:
    of_name, of_version = _split_pattern(pattern)
    return fnmatchcase((name or "").lower(), of_name) and (
        not of_version or fnmatchcase((version or "").lower(), of_version)
    )


def _split_pattern(pattern: str) -> tuple[str, str]:
    """The name and the version of a pattern; names of npm packages begin with the sign, too."""
    name, _, version = pattern.rpartition(_VERSION)
    return (name, version) if name else (pattern, "")


class ClientProfiles:
    """The profiles of clients, with the user's own values.

    Args:
        own: fields of `ClientProfile` -> the user's values by name or pattern of the client, in lower case.
    """

    def __init__(self, own: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._own = own or {}
        self._known: dict[tuple[str | None, str | None], ClientProfile] = {}

    def of(self, name: str | None, version: str | None = None) -> ClientProfile:
        """The profile of the client with this name and version in its `clientInfo`."""
        key = name, version
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            own = {field: _own(values, name, version) for field, values in self._own.items()}
            given = {field: value for field, value in own.items() if value is not None}
            found = self._known[key] = profile_of(name, version)._replace(**given)
        return found


def _own(values: Mapping[str, Any], name: str | None, version: str | None) -> Any:
    """The user's value for a client; None without one. A name with a version counts first, `*` last."""
    fitting = [one for one in values if one != EVERY and _matches(one, name, version)]
    exact = (name or "").lower()
    fitting.sort(key=lambda pattern: (not _split_pattern(pattern)[1], _split_pattern(pattern)[0] != exact))
    return values.get(fitting[0] if fitting else EVERY)


def list_wait_s(budget_s: float, since_start_s: float | None) -> float:
    """Seconds that a list may wait for sources that are starting.

    Args:
        budget_s: the client's `first_list_s`.
        since_start_s: seconds since its `initialize`; None if unknown, as for stateless clients, of whose
            time `server/discover` may have taken half.
    """
    if since_start_s is None:
        return budget_s if budget_s > LATER_LIST_S else max(MIN_LIST_S, budget_s / 2)
    if since_start_s < budget_s:
        return max(MIN_LIST_S, budget_s - since_start_s)
    return min(budget_s, LATER_LIST_S)


def discover_wait_s(budget_s: float) -> float:
    """Seconds that `initialize` or `server/discover` may wait for sources without a known list.

    Args:
        budget_s: the client's `first_list_s`, of which its first list needs the other half.
    """
    return min(LATER_LIST_S, budget_s / 2)


def leaves_its_folder(profile: ClientProfile) -> bool:
    """Whether its agents change their folder without a word, so that they need `callTool` to name it."""
    return profile.roots_change == "silently"


def client_traits(profile: ClientProfile) -> ClientTraits:
    """What is special about a client with this profile."""
    return ClientTraits(
        lists_once=profile.hears_list_changed != "always",
        own_tool_search=profile.own_tool_search,
        repeats_instructions=profile.repeats_instructions,
        has_call_tool=leaves_its_folder(profile),
        has_file_tools=profile.has_file_tools,
    )


ENTRY_NAME: Final = "lm-tools-bridge"
"""The name of this program in clients' configurations, as `lmtb client add` writes it; clients do not send
theirs."""
_MODEL_SEES: Final = headers.MODEL_SEES.encode()
_TOOL_NAMES: Final = headers.TOOL_NAMES.encode()


@lru_cache(maxsize=256)  # as many as `ClientProfiles` keeps
def needs_of(profile: ClientProfile) -> tuple[tuple[bytes, bytes], ...]:
    """The headers for requests of clients with this profile; none for clients that nobody measured."""
    words: list[str] = [] if profile.model_sees == "unknown" else [profile.model_sees]
    if profile.has_code_mode:
        words.append("both")
    if profile.drops_links:
        words.append(headers.NO_LINKS)
    told = [(_MODEL_SEES, " ".join(words).encode())] if words else []
    if rules := name_rules_of(profile).value:
        told.append((_TOOL_NAMES, rules.encode()))
    return tuple(told)


def name_rules_of(profile: ClientProfile) -> NameRules:
    """What a client needs of names, of which its prefix leaves a part."""
    if not profile.measured or profile.longest_name is None:
        return NameRules(profile.separator)
    rest = profile.longest_name - len(profile.name_prefix.format(ENTRY_NAME))
    return NameRules(profile.separator, min(OFFERED_LENGTH, rest))
