"""Creates the trust items of a workspace's configuration: its servers, and settings that allow more.

Entries of the user's own files need no trust; script tools create their items in `sources/scripts/`. Entries
are compared as written, so that a changed environment variable (a renewed token) does not revoke trust.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from workspace_server.config.model import Configuration, EntryOrigin, RemoteServer, StdioServer
from workspace_server.files.change_detection import ChangeDetector
from workspace_server.trust.command_files import NO_OPTION, CommandFileReader
from workspace_server.trust.inheritance import leads_out
from workspace_server.trust.item import DATA, TrustItem, hashed
from workspace_server.trust.moved_entries import files_of_same_meaning
from workspace_server.trust.redaction import origin, redacted, redacted_url, shortened

SETTINGS_KEY: Final = "settings"
_WORDS: Final = {
    "exposed": "offer",
    "enabled": "switch on",
    "unexposed": "no longer withhold",
    "disabled": "no longer switch off",
}
"""The lists of `Configuration.widening` as words for the user."""
DataMarks = Mapping[str, Collection[str]]
"""The files that the user marked as data, as their commands write them, by item key."""
NO_MARKS: Final[DataMarks] = {}


def stdio_key(namespace: str) -> str:
    """The key of a stdio server's item."""
    return f"stdio:{namespace}"


def remote_key(namespace: str) -> str:
    """The key of a remote server's item."""
    return f"remote:{namespace}"


class TrustItemFactory:
    """Creates the items of one workspace; returns the same object while nothing changed. Blocks."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))
        self._reader = CommandFileReader(self._root)
        self._made: dict[str, TrustItem] = {}

    def all(
        self,
        configuration: Configuration,
        path: str,
        change_detector: ChangeDetector | None = None,
        data: DataMarks = NO_MARKS,
    ) -> list[TrustItem]:
        """All items of a configuration, without disabled servers.

        Args:
            configuration: what the user and the workspace configured.
            path: the PATH its programs are started with.
            change_detector: receives the paths that the items depend on.
            data: the files that the user marked as data.
        """
        servers = [server for server in configuration.stdio if _counts(server)]
        items = [
            self.stdio(server, path, change_detector, data.get(stdio_key(server.namespace), ()))
            for server in servers
        ]
        items += [self.remote(server) for server in configuration.remote if _counts(server)]
        settings = self.settings(configuration)
        return items if settings is None else [*items, settings]

    def stdio(
        self,
        server: StdioServer,
        path: str,
        change_detector: ChangeDetector | None = None,
        marked: Collection[str] = (),
    ) -> TrustItem:
        """The item of a stdio server: its entry, the program, and the files that its command names.

        `marked` are the files that the user marked as data, as the command writes them.
        """
        cwd = server.cwd or str(self._root)
        raw = server.raw or {"command": list(server.command), "env": dict(server.env)}
        data = dict.fromkeys((*server.data, *marked))
        command_files = self._reader.named(server.command, cwd, path, change_detector, data)
        written = redacted(raw, lambda argument: self._reader.is_file(argument, cwd))
        secrets = sorted(f"{name} as {variable}" for variable, name in server.env_secrets.items())
        facts = {
            "from": self._relative(server.origin),
            "written": {key: value for key, value in written.items() if key != "env"},
            "env": _environment(server.env, raw.get("env")),
            "env files": {name: hashed(content) for name, content in server.files.items()},
            # only if there are any: items without secrets keep the digests of earlier versions
            **({"secrets": secrets} if secrets else {}),
            "cwd": os.path.relpath(cwd, self._root),
            "program": command_files.program,
            "files": command_files.facts,
            # only if there are any: items without data keep the digests of earlier versions
            **({DATA: sorted(command_files.data)} if command_files.data else {}),
        }
        words = _command_words(written) or ["(nothing)"]
        title = f"stdio server {server.namespace}: {shortened(shlex.join(words))}"
        refused = {
            path: reason
            for path, reason in command_files.refused.items()
            if path in server.data or reason != NO_OPTION  # a mark may outlive its argument
        }
        return self._item(
            TrustItem(
                stdio_key(server.namespace),
                title,
                facts,
                command_files.files,
                tuple(command_files.may_be_data),
                refused,
                same_in=files_of_same_meaning(server.raw) if server.raw else frozenset(),
                leads_out=leads_out((raw, server.command, server.env, server.files)),
            )
        )

    def remote(self, server: RemoteServer) -> TrustItem:
        """The item of a remote server: its entry, the origin of its URL, and its kind of authentication."""
        written = redacted(server.raw, lambda _: False) if server.raw else _as_written(server)
        facts = {
            "from": self._relative(server.origin),
            "written": written,
            "origin": origin(server.url),
            "auth": _auth(server),
            "headers": sorted(server.headers),
        }
        address = next((str(written[key]) for key in ("url", "serverUrl", "httpUrl") if key in written), "")
        title = f"remote server {server.namespace}: {shortened(address or origin(server.url))}"
        same_in = files_of_same_meaning(server.raw) if server.raw else frozenset()
        return self._item(TrustItem(remote_key(server.namespace), title, facts, same_in=same_in))

    def settings(self, configuration: Configuration) -> TrustItem | None:
        """The item of settings that would allow more; None if the workspace's settings only restrict."""
        widening = configuration.widening
        facts: dict[str, Any] = {word: list(getattr(widening, name)) for name, word in _WORDS.items()}
        facts["defaults"] = [list(entry) for entry in configuration.widening_defaults or ()]
        parts = [f"{word} {', '.join(facts[word])}" for word in _WORDS.values() if facts[word]]
        if configuration.widening_defaults is not None:
            names = [f"{tool}.{parameter}" for tool, parameter, _ in configuration.widening_defaults]
            parts.append(f"defaults of {', '.join(names) or 'no parameter'}")
        item = TrustItem(SETTINGS_KEY, f"settings: {'; '.join(parts)}", facts)
        return self._item(item) if parts else None

    def _item(self, item: TrustItem) -> TrustItem:
        item_made = self._made.get(item.key)
        if item_made == item:  # keeps its digest
            return item_made
        self._made[item.key] = item
        return item

    def _relative(self, source: EntryOrigin) -> str:
        return os.path.relpath(source.file, self._root)


def _counts(server: StdioServer | RemoteServer) -> bool:
    return server.enabled and server.origin.scope == "workspace"


def _command_words(written: Mapping[str, Any]) -> list[str]:
    command = written.get("command", [])
    words = list(command) if isinstance(command, list | tuple) else [command]
    arguments = written.get("args", [])
    return [str(word) for word in (*words, *(arguments if isinstance(arguments, list | tuple) else []))]


def _environment(env: Mapping[str, str], written: Any) -> dict[str, str]:
    """The variables' names with hashed values: as written in the entry, else the value from its file."""
    words = written if isinstance(written, Mapping) else {}
    return {name: hashed(str(words.get(name, value))) for name, value in env.items()}


def _auth(server: RemoteServer) -> str:
    if server.auth:
        return server.auth
    kinds = {"token": server.token, "token_env": server.token_env, "token_secret": server.token_secret}
    return next((kind for kind, value in kinds.items() if value), "none")


def _as_written(server: RemoteServer) -> dict[str, Any]:
    return {
        "url": redacted_url(server.url),
        "token": hashed(server.token),
        "token_env": server.token_env,
        "token_secret": server.token_secret,
        "client_id": server.client_id,
        "client_secret": hashed(server.client_secret),
        "scope": server.scope,
        "headers": {name: hashed(value) for name, value in server.headers.items()},
        "transport": server.transport,
        "allow_private": server.allow_private,
    }
