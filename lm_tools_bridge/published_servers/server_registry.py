"""Asks a registry of MCP servers over HTTP, within limits, and follows it nowhere else. Blocks.

The API is v0.1 of the public registry, which others serve, too.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import IO, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from lm_tools_bridge.published_servers.server_document import (
    MAX_BYTES,
    ServerDocument,
    listed_servers,
    read_document,
)
from lm_tools_bridge.published_servers.server_names import Refusal, RegistryName, SearchWord, address_problem
from lm_tools_bridge.text.printable import printable

PUBLIC: Final = "https://registry.modelcontextprotocol.io"
# Names that a search shows: more than a screen helps nobody.
MOST_LISTED: Final = 30
# Longest silence of a registry: a person waits at the terminal.
_SILENT_S: Final = 10.0
# Longest duration of an answer that comes in drops.
_WHOLE_S: Final = 30.0
_NETWORK: Final = "check the network, then try again"
# Bytes read at a time: the size and the deadline are looked at after each.
_PIECE: Final = 64 * 1024
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Lets a redirect be an answer like others: it could lead to services of this machine."""

    def redirect_request(self, *_: Any) -> None:
        """No request follows."""
        return


class ServerRegistry:
    """A registry.

    Args:
        address: of the registry, without the path of its API.
        now: seconds of a clock that never goes back.
    """

    def __init__(self, address: str, now: Callable[[], float] = time.monotonic) -> None:
        self.address = address.rstrip("/")
        self._now = now

    def server(self, asked_name: RegistryName) -> ServerDocument | Refusal:
        """What the registry says of this server, which is this one and no other."""
        version = quote(asked_name.version or "latest", safe="")
        content = self._get(f"/v0.1/servers/{quote(asked_name.name, safe='')}/versions/{version}")
        if isinstance(content, Refusal):
            return content
        document = read_document(content, f"the answer of {self.address}")
        if isinstance(document, Refusal):
            return document
        return _other_server(asked_name, document) or document

    def search(self, word: SearchWord) -> list[ServerDocument] | Refusal:
        """The servers whose names contain a word."""
        query = urlencode({"search": word.text, "version": "latest", "limit": MOST_LISTED})
        content = self._get(f"/v0.1/servers?{query}")
        if isinstance(content, Refusal):
            return content
        documents = listed_servers(content, f"the answer of {self.address}")
        return documents if isinstance(documents, Refusal) else documents[:MOST_LISTED]

    def _get(self, target: str) -> bytes | Refusal:
        refusal = registry_problem(self.address)
        if refusal is not None:
            return refusal
        headers = {"Accept": "application/json", "User-Agent": "lm-tools-bridge"}
        request = urllib.request.Request(self.address + target, headers=headers)  # noqa: S310  the scheme was checked
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SILENT_S) as response:
                return self._read_body(response)
        except urllib.error.HTTPError as error:
            with error:
                return self._status_refusal(error)
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            return self._unusable(
                f"cannot be asked: {printable(why, width=200)}", "check the network, then try again"
            )

    def _read_body(self, response: IO[bytes]) -> bytes | Refusal:
        ends = self._now() + _WHOLE_S
        pieces: list[bytes] = []
        size = 0
        while piece := response.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BYTES:
                return self._unusable(f"answers more than {MAX_BYTES >> 20} MiB", "ask those who run it")
            if self._now() > ends:
                return self._unusable(f"did not answer within {_WHOLE_S:.0f} s", "try again")
        return b"".join(pieces)

    def _status_refusal(self, error: urllib.error.HTTPError) -> Refusal:
        if error.code == 404:
            return Refusal(
                "unknown_server", f"{self.address} has no such server", "search by a part of its name"
            )
        if 300 <= error.code < 400:
            target = printable(error.headers.get("Location", "elsewhere"), width=200)
            return self._unusable(
                f"sends us to {target}, which is not followed", "name that address with --registry"
            )
        return self._unusable(f"answers with HTTP {error.code}", "try again later")

    def _unusable(self, problem: str, step: str) -> Refusal:
        return Refusal("registry_unusable", f"the registry {self.address} {problem}", step)


def registry_problem(address: str) -> Refusal | None:
    """Why an address is no registry: what it says becomes a command, so nobody on the way may change it."""
    problem = address_problem(address)
    parts = urlsplit(address) if problem is None else None
    if parts is not None and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        problem = "is not encrypted"
    if problem is None:
        return None
    text = f"the registry {printable(address, width=200)} {problem}"
    return Refusal("bad_registry", text, "name an https address with --registry")


def _other_server(asked_name: RegistryName, document: ServerDocument) -> Refusal | None:
    """Why an answer is about something else."""
    name, version = printable(document.name, width=80), printable(document.version, width=40)
    if document.name != asked_name.name:
        text = f"asked for {asked_name.name}, the registry describes {name}"
    elif asked_name.version and document.version != asked_name.version:
        text = f"asked for {asked_name.name} {asked_name.version}, the registry describes {version}"
    elif document.status == "deleted":
        text = f"{asked_name.name} {version} was taken out of the registry"
    else:
        return None
    return Refusal("other_server", text, "search by a part of its name, or add its package by npm: or pypi:")
