"""Computes which tools the policy allows, from their names. Pure.

A tool is visible if it is exposed and enabled; each of these has a default and two delta lists. `edit.py`
saves the lists; the view applies modes, filters and trust.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from workspace_server.config.model import PolicyDeltas
from workspace_server.source import Default

_COPILOT: Final = (
    "applyPatch", "insertEdit", "replaceString", "multiReplaceString", "createFile", "createDirectory",
    "createNewJupyterNotebook", "editNotebook", "runNotebookCell", "readFile", "createNewWorkspace",
    "getVSCodeAPI", "installExtension", "runVscodeCommand", "memory", "getNotebookSummary", "fetchWebPage",
    "openSimpleBrowser", "editFiles", "readProjectStructure", "getProjectSetupInfo", "getDocInfo",
    "askQuestions", "readNotebookCellOutput", "switchAgent", "toolReplay", "listDirectory", "githubRepo",
)  # fmt: skip

BUILT_IN_DISABLED: Final[frozenset[str]] = frozenset(f"copilot_{name}" for name in _COPILOT) | {
    "create_and_run_task", "run_in_terminal", "manage_todo_list", "search_subagent", "runSubagent",
    "vscode_get_confirmation", "vscode_get_terminal_confirmation", "inline_chat_exit",
}  # fmt: skip
"""Tools of an editor that are never offered."""

REQUIRED: Final[frozenset[str]] = frozenset({
    "copilot_searchCodebase", "copilot_searchWorkspaceSymbols", "copilot_listCodeUsages",
    "lm_findFiles", "lm_findTextInFiles", "lm_getDiagnostics",
})  # fmt: skip
"""Tools that are always exposed, whatever the lists say."""

DEFAULT: Final[frozenset[str]] = REQUIRED | {"lm_readFile", "lm_listDirectory", "calculator", "datetime"}
"""Tools that are enabled by default, whatever their source."""

Switch = Literal["enable", "disable", "expose", "unexpose"]
"""What can be done to a tool: to use it or not, and to let it be chosen for use or not."""
_MOVES: Final[Mapping[Switch, tuple[tuple[str, str], ...]]] = {
    "enable": (("exposed", "unexposed"), ("enabled", "disabled")),
    "disable": (("disabled", "enabled"),),
    "expose": (("exposed", "unexposed"),),
    "unexpose": (("unexposed", "exposed"),),
}
"""Of each switch: the lists that get the tool, and those that lose it."""
_BUILT_IN_DISABLED: Final = "built-in disabled: it is never offered"


@dataclass(frozen=True, slots=True)
class Policy:
    """The policy for all existing tool names."""

    names: frozenset[str]
    enabled_by_default: frozenset[str]
    exposed_by_default: frozenset[str]
    exposed: frozenset[str]
    enabled: frozenset[str]
    deltas: PolicyDeltas

    def visible(self, name: str) -> bool:
        """Whether the policy allows a tool; filters and trust are not considered."""
        is_open = not self.deltas.closed
        return is_open and name in self.names and name in self.exposed and name in self.enabled

    def reason(self, name: str) -> str | None:
        """Why a tool is not visible; None for a visible one."""
        if self.visible(name):
            return None
        if name not in self.names:
            return "unknown: no source offers it"
        if name in BUILT_IN_DISABLED:
            return _BUILT_IN_DISABLED
        if self.deltas.closed:
            return "a rule that hides tools cannot be read, so all are hidden: see the errors of lmtb tools"
        if name not in self.exposed:
            is_listed = name in self.deltas.unexposed
            return "not exposed: " + (
                "it is in unexposedDelta" if is_listed else "its source is off by default"
            )
        is_listed = name in self.deltas.disabled
        return "disabled: " + (
            "it is in disabledDelta" if is_listed else "its source is not enabled by default"
        )


def decide(defaults: Mapping[str, Default], deltas: PolicyDeltas) -> Policy:
    """The policy for the existing tool names.

    Args:
        defaults: every existing tool name, with the default of its source.
        deltas: the lists in force.
    """
    by_source = frozenset(name for name, default in defaults.items() if default == "enabled")
    exposed_only = frozenset(name for name, default in defaults.items() if default == "exposed")
    enabled_by_default = (DEFAULT | by_source) - BUILT_IN_DISABLED
    exposed_by_default = enabled_by_default | (exposed_only - BUILT_IN_DISABLED)
    unexposed = (frozenset(deltas.unexposed) - BUILT_IN_DISABLED) - REQUIRED
    disabled = frozenset(deltas.disabled)
    added = (frozenset(deltas.exposed) - BUILT_IN_DISABLED) | REQUIRED
    return Policy(
        names=frozenset(defaults),
        enabled_by_default=enabled_by_default,
        exposed_by_default=exposed_by_default,
        exposed=(added | (exposed_by_default - unexposed)) - unexposed - BUILT_IN_DISABLED,
        enabled=(frozenset(deltas.enabled) | (enabled_by_default - disabled)) - disabled,
        deltas=deltas,
    )


def hidden(defaults: Mapping[str, Default], deltas: PolicyDeltas) -> dict[str, str]:
    """The names that the policy hides, each with the reason."""
    policy = decide(defaults, deltas)
    reasons = ((name, policy.reason(name)) for name in defaults)
    return {name: reason for name, reason in reasons if reason is not None}


def prune(defaults: Mapping[str, Default], deltas: PolicyDeltas) -> PolicyDeltas:
    """The lists without entries that have no effect; the same tools stay visible.

    Removed are built-in disabled names, required names in `unexposed`, and known names that repeat their
    default, are overridden by the opposite list, or are not exposed and so cannot be enabled or disabled.
    Unknown names stay, because their source may return.
    """
    policy = decide(defaults, deltas)
    known_names = policy.names | DEFAULT

    def keep(names: Iterable[str], needless: frozenset[str]) -> tuple[str, ...]:
        return tuple(sorted(set(names) - BUILT_IN_DISABLED - needless))

    unexposed = frozenset(deltas.unexposed) - REQUIRED
    disabled = frozenset(deltas.disabled)
    hidden_names = known_names - policy.exposed
    return PolicyDeltas(
        exposed=keep(set(deltas.exposed) - unexposed, policy.exposed_by_default),
        unexposed=keep(unexposed, known_names - policy.exposed_by_default),
        enabled=keep(set(deltas.enabled) - disabled, policy.enabled_by_default | hidden_names),
        disabled=keep(disabled, (known_names - policy.enabled_by_default) | hidden_names),
    )


def with_tool(
    defaults: Mapping[str, Default], deltas: PolicyDeltas, name: str, switch: Switch
) -> PolicyDeltas:
    """The pruned lists after switching one tool.

    Enabling a tool also exposes it, because it would stay hidden otherwise. Built-in disabled names are
    ignored, and so is hiding a required name from the selection.
    """
    lists = {layer: set(getattr(deltas, layer)) for layer in ("exposed", "unexposed", "enabled", "disabled")}
    for into, out_of in _MOVES[switch]:
        lists[out_of].discard(name)
        lists[into].add(name)
    return prune(
        defaults,
        PolicyDeltas(**{layer: tuple(sorted(names)) for layer, names in lists.items()}, closed=False),
    )
