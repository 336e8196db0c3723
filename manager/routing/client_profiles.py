"""Knows what client programs can do: how long they wait for lists, what they hear, what their model sees.

Found by the name in `clientInfo`. The values were measured with the named versions.
`docs/clients/profiles.md` shows the same table, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, Literal, NamedTuple, TypeVar

from manager.client_overrides import EVERY, Sees

LATER_LIST_S: Final = 2.0
"""Seconds that a list may wait for sources once the client has had its first list."""
MIN_LIST_S: Final = 0.1
_Value = TypeVar("_Value")
_MAX_KNOWN: Final = 256
Hears = Literal["always", "until stream lost", "never"]


class ClientProfile(NamedTuple):
    """What one client program can do. Times are in seconds; None means without limit.

    Attributes:
        title: The name of the program.
        names: Patterns of its name in `clientInfo`, in lower case.
        measured: The versions that were measured; empty for an assumption.
        first_list_s: How long `initialize` (or `server/discover`) and the first list may take together, so
            that its first model request has the tools.
        hears_list_changed: Whether it lists again after `list_changed`.
        silent_call_s: How long a call may be silent before the response begins.
        silent_stream_s: How long a call's event stream may be silent.
        is_extended_by_progress: Whether progress notifications extend these limits.
        model_sees: What of a result with text and structured content reaches the model.
        longest_name: Longest tool name including its prefix.
        name_prefix: What it puts before tool names; `{}` is the name of the server in its configuration.
        reads_all_pages: Whether it follows `nextCursor`.
        own_files: Files of a project whose MCP servers it starts itself.
    """

    title: str
    names: tuple[str, ...]
    measured: str = ""
    first_list_s: float = 0.9
    hears_list_changed: Hears = "always"
    silent_call_s: float | None = 60
    silent_stream_s: float | None = 60
    is_extended_by_progress: bool = True
    model_sees: Sees = "text"
    longest_name: int | None = 64
    name_prefix: str = "mcp__{}__"
    reads_all_pages: bool = True
    own_files: tuple[str, ...] = ()


PROFILES: Final = (
    ClientProfile(
        "Claude Code",
        ("claude-code",),
        "2.1.328, 2.1.330",
        first_list_s=1.8,
        silent_stream_s=300,
        model_sees="structured",
        longest_name=128,
        own_files=(".mcp.json",),
    ),
    ClientProfile(
        "Codex",
        ("codex-mcp-client", "codex*"),
        "0.169.0",
        first_list_s=0.9,
        hears_list_changed="never",
        silent_call_s=300,
        silent_stream_s=300,
        is_extended_by_progress=False,
        model_sees="structured",
        longest_name=128,
        own_files=(".codex/config.toml",),
    ),
    ClientProfile(
        "Gemini CLI",
        ("gemini-cli-mcp-client", "gemini-cli*"),
        "0.61.0",
        first_list_s=50,
        hears_list_changed="until stream lost",
        silent_stream_s=300,
        longest_name=63,
        name_prefix="mcp_{}_",
        reads_all_pages=False,
        own_files=(".gemini/settings.json",),
    ),
    ClientProfile(
        "opencode",
        ("opencode",),
        "1.18.33",
        first_list_s=25,
        longest_name=None,
        name_prefix="{}_",
        own_files=("opencode.json", "opencode.jsonc"),
    ),
    ClientProfile(
        "VS Code", ("visual studio code*", "vscode*"), first_list_s=8, own_files=(".vscode/mcp.json",)
    ),
    ClientProfile("Cursor", ("cursor*",), first_list_s=8, own_files=(".cursor/mcp.json",)),
)
OTHER: Final = ClientProfile("other clients", ("*",))
"""The cautious assumption for clients that nobody measured."""


def profile_of(name: str | None) -> ClientProfile:
    """The profile of the client with this name in its `clientInfo`."""
    lowered = (name or "").lower()
    return next(
        (one for one in PROFILES if any(fnmatchcase(lowered, pattern) for pattern in one.names)), OTHER
    )


class ClientProfiles:
    """The profiles of clients, with the user's own values.

    Args:
        first_list_s: the setting of this name, by client name or pattern in lower case.
        model_sees: likewise.
    """

    def __init__(
        self, first_list_s: Mapping[str, float] | None = None, model_sees: Mapping[str, Sees] | None = None
    ) -> None:
        self._first_list_s = first_list_s or {}
        self._model_sees = model_sees or {}
        self._known: dict[str | None, ClientProfile] = {}

    def of(self, name: str | None) -> ClientProfile:
        """The profile of the client with this name in its `clientInfo`."""
        found = self._known.get(name)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[name] = self._of(name)
        return found

    def _of(self, name: str | None) -> ClientProfile:
        found = profile_of(name)
        return found._replace(
            first_list_s=_override(self._first_list_s, name, found.first_list_s),
            model_sees=_override(self._model_sees, name, found.model_sees),
        )


def _override(values: Mapping[str, _Value], name: str | None, otherwise: _Value) -> _Value:
    """The user's value for a client: by its name, then by the first pattern, then by `*`."""
    lowered = (name or "").lower()
    if lowered in values:
        return values[lowered]
    patterns = (one for one in values if one != EVERY and fnmatchcase(lowered, one))
    return values.get(next(patterns, EVERY), otherwise)


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
