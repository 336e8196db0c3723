"""Reads the keys by which the files of clients limit a server. Pure.

Lists of tools are kept. A key that limits anything else, or whose words say that it does, cannot be kept: its
entry does not start, because without the limit the server could do more than the author of the file allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from workspace_server.config.file_issues import display_name, display_names
from workspace_server.config.formats.fields import ConfigValueError, Fields
from workspace_server.config.formats.sandbox import DOMAINS

IGNORED: Final = "ignore_restrictions"
"""The key with the names of those limits that the user gives up."""
_ALLOWED_TOOLS: Final = frozenset({
    "tools", "includetools", "includedtools", "enabledtools", "enabletools", "allowedtools", "allowtools",
    "availabletools", "toolallowlist", "toolsallowlist", "toolwhitelist", "onlytools",
})  # fmt: skip
_DENIED_TOOLS: Final = frozenset({
    "excludetools", "excludedtools", "disabledtools", "disabletools", "disallowedtools", "deniedtools",
    "denytools", "blockedtools", "tooldenylist", "toolsdenylist", "toolblocklist", "toolblacklist",
})  # fmt: skip
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_CLOSES: Final = re.compile(
    r"sandbox|isolat|confine|restrict|readonly|offline|dryrun|safemode|(?:deny|denied|disallow|block|forbid|exclude)"
    r"|(?:require|needs?)?approv|confirm|permission|container|docker|disable|jail|seccomp|firewall|runas"
    r"|inactive|paused|suspended|^off$|^no(?:network|internet|egress|filesystem|write)"
)
"""A key with one of these limits the server unless its value is off."""
_OPENS: Final = re.compile(r"allow|network|internet|filesystem|egress|domains|write|^(?:is)?active$|^enable")
"""A key with one of these limits the server unless its value allows everything."""
_GRANTS: Final = frozenset({"auto", "always"})
"""Words of keys that would spare questions (`autoApprove`). They are not honoured, so nothing opens."""
_CLOSED_VALUE: Final = re.compile(
    r"read[-_ ]?only|restricted|sandbox(?:ed)?|isolated|workspace-write", re.IGNORECASE
)
_OFF: Final = frozenset(
    {"", "none", "off", "no", "false", "never", "auto", "allow", "approve", "disabled", "0"}
)
_ALL: Final = frozenset({"*", "all", "any", "true", "yes", "full", "host", "unrestricted"})
_DEPTH: Final = 3
"""How deep limits are looked for in tables; clients nest them in one or two."""


def tool_lists(fields: Fields) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The patterns of tools to include (empty for all) and to exclude, whatever the client calls its lists.

    A list of allowed tools that is empty allows none.

    Raises:
        ConfigValueError: a list cannot be read, or two lists say what is allowed.
    """
    allowed = {"include": fields.texts("include")} if fields.has("include") else {}
    denied = list(fields.texts("exclude"))
    for key in fields.left:
        plain, value = _plain(key), fields.peek(key)
        if plain in _ALLOWED_TOOLS and _says_each(value):
            denied += [name for name, is_on in fields.take(key).items() if not is_on]
        elif isinstance(value, Mapping):
            continue  # rules for single tools; `unkept` reports those that limit them
        elif plain in _ALLOWED_TOOLS and _is_all(value):
            fields.take(key)
        elif plain in _ALLOWED_TOOLS:
            allowed[key] = _tool_names(fields, key)
        elif plain in _DENIED_TOOLS:
            denied += _tool_names(fields, key)
    if len(allowed) > 1:
        raise ConfigValueError(f"{' and '.join(allowed)} both say which tools are allowed; keep one of them")
    include = next(iter(allowed.values()), ())
    return include, ("*",) if allowed and not include else tuple(dict.fromkeys(denied))


def unkept(values: Mapping[str, Any], keys: Iterable[str], ignored: Collection[str] = ()) -> list[str]:
    """Those of the keys that limit a server in a way that cannot be kept, without those to be ignored."""
    return [key for key in keys if key not in ignored and _limits(key, values[key])]


def explain(keys: Sequence[str], *, as_json: bool) -> str:
    """Why a server with such keys does not start, and what to do."""
    if list(keys) == [DOMAINS]:
        return (
            "VS Code would limit its network to some domains, which LM Tools Bridge cannot, so it is not"
            f' started; to run it in its sandbox with an open network, add "{IGNORED}": ["{DOMAINS}"] to it'
        )
    names = display_names(keys)
    listed = json.dumps([display_name(key) for key in keys])
    line = f'"{IGNORED}": {listed}' if as_json else f"{IGNORED} = {listed}"
    return (
        f"its file limits it with {names}, which LM Tools Bridge cannot keep, so it is not started; to run it"
        f" without this limit, remove {names}, or add {line} to the entry"
    )


def _limits(key: str, value: Any, depth: int = 0) -> bool:
    words = [word.lower() for word in _WORD.findall(key)]
    plain = "".join(words)
    if _GRANTS.intersection(words):
        return False
    if isinstance(value, str) and _CLOSED_VALUE.fullmatch(value.strip()):
        return True
    if isinstance(value, Mapping) and plain in _ALLOWED_TOOLS:
        return any(inner is False or _limits("", inner, depth + 1) for inner in value.values())
    if plain in _DENIED_TOOLS or _CLOSES.search(plain):
        return not _is_off(value)
    if plain in _ALLOWED_TOOLS or _OPENS.search(plain):
        return not _is_all(value)
    if isinstance(value, Mapping) and depth < _DEPTH:
        return any(_limits(str(name), inner, depth + 1) for name, inner in value.items())
    return False


def _is_off(value: Any) -> bool:
    return value.strip().lower() in _OFF if isinstance(value, str) else not value


def _is_all(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in _ALL
    if isinstance(value, bool | int | float):
        return value is not False  # a number is a size or a time
    return value is None or (isinstance(value, list) and "*" in value)


def _says_each(value: Any) -> bool:
    """Whether a value is a table that switches single tools on and off."""
    return isinstance(value, Mapping) and all(isinstance(is_on, bool) for is_on in value.values())


def _tool_names(fields: Fields, key: str) -> tuple[str, ...]:
    """The names in a list, without the arguments that some clients write behind them."""
    return tuple(name.partition("(")[0].strip() for name in fields.texts(key))


def _plain(key: str) -> str:
    return "".join(_WORD.findall(key)).lower()
