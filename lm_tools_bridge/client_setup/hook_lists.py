"""Finds, adds and removes our entry in a list of hooks. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from lm_tools_bridge.client_setup.refusals import FormProblem

_WORDS: Final = ["hook", "post-edit"]
_PROGRAMS: Final = frozenset({"lmtb", "lm-tools-bridge"})


def is_our_hook(entry: Any) -> bool:
    """Whether an entry of a list of hooks runs `lmtb hook post-edit`, and nothing else."""
    hooks = entry.get("hooks") if isinstance(entry, Mapping) else None
    return isinstance(hooks, list) and bool(hooks) and all(map(_is_our_command, hooks))


def hook_in(hooks: Any) -> Mapping[str, Any] | FormProblem | None:
    """Our entry in the value of a list of hooks; None without one."""
    if hooks is None:
        return None
    if not isinstance(hooks, list):
        return FormProblem("unsupported_form", "the hooks are not a list")
    return next((entry for entry in hooks if is_our_hook(entry)), None)


def upgraded_hook(present: Mapping[str, Any], new_entry: Mapping[str, Any]) -> dict[str, Any]:
    """Our entry with the program where it is today, and with what its user changed."""
    command = new_entry["hooks"][0]["command"]
    return {**present, "hooks": [{**hook, "command": command} for hook in present["hooks"]]}


def with_hook(hooks: Any, entry: Mapping[str, Any]) -> list[Any]:
    """The list with our entry in its place, else at its end."""
    present = list(hooks or ())
    if any(map(is_our_hook, present)):
        return [entry if is_our_hook(each) else each for each in present]
    return [*present, entry]


def without_hook(hooks: Any) -> list[Any]:
    """The list without our entry."""
    return [each for each in hooks or () if not is_our_hook(each)]


def _is_our_command(hook: Any) -> bool:
    command = hook.get("command") if isinstance(hook, Mapping) else None
    if not isinstance(command, str):
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    name = words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if words else ""
    return name in _PROGRAMS and words[1:] == _WORDS
