"""A language server that only records what it is told; a test sends its notifications, and decides its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.diagnostics.publications import Publications
from lm_tools_bridge.code_intelligence.server import PositionEncoding, RequestFailed
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.sync.project_sync import FollowedProject
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path
from support.servers.language_servers.lsp_types import assert_is_lsp

PYTHON = ServerSpecification("fake", {".py": "python"}, (("fake",),))
CLANGD = ServerSpecification(
    "fake-clangd",
    {".cpp": "cpp", ".h": "cpp"},
    (("fake",),),
    ready="background-index",
    changes="open-documents",
)
ANSWER_S = 10.0
"""More than any answer here needs."""


class RecordingPeer:
    """A `Peer`.

    Attributes:
        sent: the notifications that it got, in order.
        answers: functions of the parameters, by method, which may return a future; of other methods it knows nothing.
        on_sent: called with each notification, e.g. to publish diagnostics.
        offered, registered: what it supports.
    """

    def __init__(self, specification: ServerSpecification, folder: Path, **members: Any) -> None:
        self.specification = replace(specification, **members)
        self.folders: Sequence[Path] = (folder,)
        self.sent: list[tuple[str, Any]] = []
        self.asked: list[tuple[str, Any]] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.on_sent: Callable[[str, Any], None] = lambda method, params: None
        self.offered: dict[str, Any] = {}
        self.registered: list[Mapping[str, Any]] = []

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self.offered

    @property
    def encoding(self) -> PositionEncoding:
        return "utf-16"

    def supports(self, method: str) -> bool:
        return method in self.answers

    def registrations(self, method: str) -> Sequence[Mapping[str, Any]]:
        return self.registered

    async def request(self, method: str, params: Any = None, *, timeout_s: float | None = None) -> Any:
        assert_is_lsp(method, params)
        self.asked.append((method, params))
        await asyncio.sleep(0)
        if method not in self.answers:
            raise RequestFailed(-32601, f"no {method}")
        answer = self.answers[method](params)
        return await answer if isinstance(answer, Awaitable) else answer

    async def notify(self, method: str, params: Any = None) -> None:
        assert_is_lsp(method, params)
        self.sent.append((method, params))
        await asyncio.sleep(0)
        self.on_sent(method, params)

    def methods(self) -> list[str]:
        """The last word of each notification."""
        return [method.rpartition("/")[2] for method, _ in self.sent]

    def events(self) -> list[tuple[str, int]]:
        """Names and types of all files in `workspace/didChangeWatchedFiles`."""
        batches = [params["changes"] for method, params in self.sent if method.endswith("WatchedFiles")]
        return [(name_of(event["uri"]), event["type"]) for batch in batches for event in batch]


def name_of(uri: str) -> str:
    """The file's name."""
    path = to_path(uri, Path)
    assert path is not None
    return path.name


class Followed:
    """A project in a folder, a peer, and the part under test that follows one for the other."""

    def __init__(
        self,
        folder: Path,
        specification: ServerSpecification = PYTHON,
        *,
        watch: TreeWatch | None = None,
        take_in_s: float = ANSWER_S,
        reread_s: float = 0.05,
        **members: Any,
    ) -> None:
        self.folder = folder
        self.peer = RecordingPeer(specification, folder, **members)
        self.sync = FollowedProject(
            self.peer, watch or TreeWatch([folder]), take_in_s=take_in_s, reread_s=reread_s
        )

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def publish(
        self, uri: str, *messages: str, version: int | None = None, to: Publications | None = None
    ) -> None:
        """Let the server publish diagnostics with these messages."""
        params: dict[str, Any] = {"uri": uri, "diagnostics": [{"message": text} for text in messages]}
        if version is not None:
            params["version"] = version
        if to is not None:
            to.published(params, 0)
        else:
            self.sync.take_notification("textDocument/publishDiagnostics", params)

    def publish_each_version(
        self, judge: Callable[[str], Sequence[str]] = lambda text: (), to: Publications | None = None
    ) -> None:
        """Let the server publish for each version that it gets what `judge` says of its text."""

        def publish(method: str, params: Any) -> None:
            if method in ("textDocument/didOpen", "textDocument/didChange"):
                document = params["textDocument"]
                text = document["text"] if "text" in document else params["contentChanges"][0]["text"]
                self.publish(document["uri"], *judge(text), version=document["version"], to=to)

        self.peer.on_sent = publish
