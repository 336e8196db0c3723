"""The table of third-party MCP clients: how each is run, and what it supports through the manager.

`scripts/clients` installs them, `tests/clients/` checks them. A test compares `as_markdown` with
`docs/build/matrix.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

DRIVERS = Path(__file__).parents[2] / "clients" / "drivers"
Program = Literal["python", "python 1", "sdk", "client", "inspector"]
Way = Literal["http", "mcp-remote", "mcp-remote auto", "lmtb connect"]
SESSIONS, STATELESS = "2025-11-25", "2026-07-28"

ABILITIES = (
    "list", "call", "progress", "cancel", "question", "list change", "restart", "crash", "list change again"
)  # fmt: skip
"""What is tried, in this order; `restart` and `crash` are what the manager does between two calls."""


@dataclass(frozen=True)
class Kind:
    """One row: a client, as it is configured.

    Attributes:
        title: what it is, for readers.
        package: name and version as its registry has them.
        program: which of our programs drives it; `inspector` is run as it is.
        mode: how it negotiates: `legacy`, `auto`, `pinned`.
        era: the revision that reaches us.
        way: over HTTP itself, or by a program that it starts.
    """

    title: str
    package: str
    program: Program
    mode: str
    era: str
    way: Way = "http"

    @property
    def negotiated(self) -> str:
        """The revision that the client itself takes to be spoken."""
        return SESSIONS if self.mode == "legacy" else self.era


PYTHON_1: tuple[str, str, Program] = ("Python SDK", "mcp 1.30.0", "python 1")
PYTHON: tuple[str, str, Program] = ("Python SDK", "mcp 2.3", "python")
SDK: tuple[str, str, Program] = ("TypeScript SDK", "@modelcontextprotocol/sdk 1.32.2", "sdk")
CLIENT: tuple[str, str, Program] = ("TypeScript SDK", "@modelcontextprotocol/client 2.4.0", "client")
INSPECTOR: tuple[str, str, Program] = (
    "Inspector, command line",
    "@modelcontextprotocol/inspector 2.12.0",
    "inspector",
)
REMOTE: tuple[str, str, Program] = ("mcp-remote, started by the Python SDK", "mcp-remote 0.15.1", "python")

CLIENTS = {
    "python-1": Kind(*PYTHON_1, "legacy", SESSIONS),
    "python-legacy": Kind(*PYTHON, "legacy", SESSIONS),
    "python-auto": Kind(*PYTHON, "auto", STATELESS),
    "python-pinned": Kind(*PYTHON, "pinned", STATELESS),
    "typescript-1": Kind(*SDK, "legacy", SESSIONS),
    "typescript-legacy": Kind(*CLIENT, "legacy", SESSIONS),
    "typescript-auto": Kind(*CLIENT, "auto", STATELESS),
    "typescript-pinned": Kind(*CLIENT, "pinned", STATELESS),
    "inspector-legacy": Kind(*INSPECTOR, "legacy", SESSIONS),
    "inspector-auto": Kind(*INSPECTOR, "auto", STATELESS),
    "inspector-modern": Kind(*INSPECTOR, "modern", STATELESS),
    "remote-legacy": Kind(*REMOTE, "legacy", SESSIONS, "mcp-remote"),
    "remote-auto": Kind(*REMOTE, "legacy", STATELESS, "mcp-remote auto"),
    "connect-python-1": Kind(*PYTHON_1, "legacy", SESSIONS, "lmtb connect"),
    "connect-python-auto": Kind(*PYTHON, "auto", STATELESS, "lmtb connect"),
    "connect-typescript-1": Kind(*SDK, "legacy", SESSIONS, "lmtb connect"),
    "connect-typescript-auto": Kind(*CLIENT, "auto", STATELESS, "lmtb connect"),
}

_ONE = "one request for each run"
_TOO_LATE = "it gives its stream of changes up for good if the manager is not back after 3 s"
CANNOT: dict[tuple[str, str], str] = {
    ("python-1", "cancel"): "it gives up without telling the server",
    ("connect-python-1", "cancel"): "it gives up without telling the server",
    (
        "remote-auto",
        "cancel",
    ): "it sends the notification of the older era, which stateless requests do not have",
    ("python-1", "list change again"): _TOO_LATE,
    ("python-legacy", "list change again"): _TOO_LATE,
    ("remote-auto", "list change again"): "it does not open its stream of changes again",
} | {
    (f"inspector-{mode}", ability): why
    for mode in ("legacy", "auto", "modern")
    for ability, why in (
        ("progress", "it does not show progress"),
        ("cancel", _ONE),
        ("question", "its command line answers none, and says so to the server"),
        ("list change", _ONE),
        ("restart", _ONE),
        ("crash", _ONE),
        ("list change again", _ONE),
    )
}
"""Client and ability -> why this client itself does not have it, whatever the server."""


@dataclass(frozen=True)
class Installed:
    """Where the clients are."""

    folder: Path

    @property
    def modules(self) -> Path:
        """The packages from npm."""
        return self.folder / "npm/node_modules"

    @property
    def node(self) -> str:
        """A Node that is new enough."""
        own = self.modules / "node/bin/node"
        return str(own) if own.exists() else "node"

    def driver(self, kind: Kind) -> Sequence[str]:
        """The command that drives this client; its options are one more argument."""
        if kind.program in ("sdk", "client"):
            return (self.node, str(DRIVERS / "typescript.mjs"))
        python = self.folder / "venv/bin/python" if kind.program == "python 1" else sys.executable
        return (str(python), "-I", str(DRIVERS / "python_sdk.py"))

    def inspector(self, kind: Kind, url: str) -> Sequence[str]:
        """The Inspector's command line, up to the method."""
        program = self.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        era = ("--protocol-era", kind.mode, "--transport", "http", "--format", "json", "-q")
        return (self.node, str(program), "--cli", url, *era)

    def options(self, kind: Kind, url: str) -> dict[str, Any]:
        """What the driver is to be told, except where it is: see `client_driver.py`."""
        common = {"mode": kind.mode, "family": kind.program, "modules": str(self.modules)}
        if kind.way == "http":
            return {**common, "url": url}
        if kind.way == "lmtb connect":
            return {**common, "command": [sys.executable, "-I", "-m", "manager", "connect"]}
        proxy = [self.node, str(self.modules / "mcp-remote/dist/proxy.js"), url, "--silent"]
        return {**common, "command": [*proxy, *(["--protocol", "auto"] if kind.way.endswith("auto") else [])]}


def as_markdown() -> str:
    """The table for readers, and the reasons below it."""
    reasons = list(dict.fromkeys(CANNOT.values()))
    heads = ("client", "package", "revision", *ABILITIES)
    rows = [_row(heads), "|---" * len(heads) + "|"]
    for name, kind in CLIENTS.items():
        whys = [CANNOT.get((name, ability)) for ability in ABILITIES]
        cells = [f"({reasons.index(why) + 1})" if why else "yes" for why in whys]
        rows.append(_row((_title(kind), "`{}` {}".format(*kind.package.split()), kind.era, *cells)))
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([*rows, "", *notes])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _title(kind: Kind) -> str:
    if kind.way == "mcp-remote":
        return kind.title
    if kind.way == "mcp-remote auto":
        return f"{kind.title}, `--protocol auto`"
    through = " through `lmtb connect`" if kind.way == "lmtb connect" else ""
    return f"{kind.title}{through}" + ("" if kind.program in ("python 1", "sdk") else f", {kind.mode}")
