"""All parts together on real servers: found on the PATH, started once, true after edits by others, replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.kinds.available_kinds import AvailableKinds, KindChoices
from lm_tools_bridge.code_intelligence.server_process.running_server import RunningServer
from lm_tools_bridge.code_intelligence.server_process.server_supervisor import ServerSupervisor
from lm_tools_bridge.code_intelligence.session.pool import PoolContext, ServerPool
from lm_tools_bridge.code_intelligence.sync.project_sync import make_sync
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path, to_uri
from lm_tools_bridge.code_intelligence.wire.positions import Position, to_server
from support.processes.child_processes import alive, until
from support.servers.language_servers.real_language_servers import environment as languages_environment
from support.servers.language_servers.real_language_servers import skip_absent

READY_S = 30.0

PROJECTS: Mapping[str, Mapping[str, str]] = {
    "python": {
        "pyproject.toml": '[project]\nname = "sample"\nversion = "1"\n',
        "greeting.py": "def greet(x: int) -> int:\n    return x\n",
        "user.py": "from greeting import greet\n\nprint(greet(1))\n",
    },
    "cpp": {
        "greeting.h": "int greet(int x);\n",
        "greeting.cpp": '#include "greeting.h"\nint greet(int x) { return x; }\n',
        "user.cpp": '#include "greeting.h"\nint y = greet(1);\n',
    },
    "typescript": {
        "tsconfig.json": '{"compilerOptions": {"strict": true, "module": "esnext", "moduleResolution": "bundler"}}',
        "greeting.ts": "export function greet(x: number) { return x; }\n",
        "user.ts": 'import { greet } from "./greeting";\n\nexport const y = greet(1);\n',
    },
    "go": {
        "go.mod": "module sample\n\ngo 1.21\n",
        "greeting.go": "package sample\n\nfunc greet(x int) int { return x }\n",
        "user.go": "package sample\n\nvar y = greet(1)\n",
    },
    "rust": {
        "Cargo.toml": '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n',
        "src/lib.rs": "pub mod greeting;\npub mod more;\npub mod user;\n",
        "src/greeting.rs": "pub fn greet(x: i32) -> i32 { x }\n",
        "src/more.rs": "",
        "src/user.rs": "use crate::greeting::greet;\n\npub fn y() -> i32 { greet(1) }\n",
    },
}
DEFINED = {
    "python": ("greeting.py", Position(1, 5)),
    "cpp": ("greeting.cpp", Position(2, 5)),
    "typescript": ("greeting.ts", Position(1, 17)),
    "go": ("greeting.go", Position(3, 6)),
    "rust": ("src/greeting.rs", Position(1, 8)),
}
ADDED = {
    "python": ("more.py", "from greeting import greet\n\nprint(greet(2), greet(3))\n"),
    "cpp": ("more.h", '#include "greeting.h"\ninline int z() { return greet(2) + greet(3); }\n'),
    "typescript": (
        "more.ts",
        'import { greet } from "./greeting";\n\nexport const z = greet(2) + greet(3);\n',
    ),
    "go": ("more.go", "package sample\n\nvar z = greet(2) + greet(3)\n"),
    "rust": (
        "src/more.rs",
        "use crate::greeting::greet;\n\npub fn z() -> i32 { greet(2) + greet(3) }\n",
    ),
}
EACH = pytest.mark.parametrize("language", list(PROJECTS))


@asynccontextmanager
async def pooled(language: str, installed: Path, folder: Path) -> AsyncIterator[tuple[ServerPool, Path]]:
    """The servers of a small project; at the end none may be left."""
    skip_absent({"go": "gopls", "rust": "rust-analyzer"}.get(language, language), installed)
    root = (folder / "project").resolve()
    root.mkdir()
    for name, text in PROJECTS[language].items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    if language == "cpp":
        commands = [
            {"directory": str(root), "file": name, "arguments": ["c++", "-c", name]}
            for name in PROJECTS[language]
            if name.endswith(".cpp")
        ]
        (root / "compile_commands.json").write_text(json.dumps(commands))
    (folder / "home").mkdir()
    env = languages_environment(installed, folder / "home")

    async def environment() -> Mapping[str, str]:
        return env

    # gopls and rust-analyzer run code of the project
    choices = KindChoices(lambda: env["PATH"], root, lambda digests: dict.fromkeys(digests, "trusted"))
    kinds = AvailableKinds([root], choices)
    follow = make_sync([root])
    pool = ServerPool(
        kinds, PoolContext((root,), environment, "1"), lambda name: ServerSupervisor(name, follow)
    )
    pids: list[int] = []
    try:
        yield pool, root
    finally:
        pids = [status.pid for status in pool.status() if status.pid is not None]
        started = asyncio.get_running_loop().time()
        await pool.close()
        assert asyncio.get_running_loop().time() - started < 6
        assert not any(alive(pid) for pid in pids)


async def server_for(pool: ServerPool, file: Path) -> RunningServer:
    found = await pool.for_file(file, "symbols")
    running = [one for one in found if isinstance(one, RunningServer)]
    assert running, found
    assert not running[0].specification.limits, found
    return running[0]


async def references(pool: ServerPool, root: Path, language: str) -> Mapping[str, int]:
    """How many references each file has, as a tool would ask; the server must say that this is all."""
    name, defined = DEFINED[language]
    file = root / name
    server = await server_for(pool, file)
    lines = await server.open(file)
    params = {
        "textDocument": {"uri": to_uri(file)},
        "position": to_server(defined, lines, server.encoding),
        "context": {"includeDeclaration": True},
    }
    freshness = await server.ready(READY_S)
    found: list[Any] = await server.request("textDocument/references", params)
    lacks_standard_library = freshness.state == "partial" and "rust-src" in (freshness.reason or "")
    assert freshness.state in ("fresh", "unknown") or lacks_standard_library, freshness
    counts: dict[str, int] = {}
    for one in found or []:
        path = to_path(one["uri"], Path)
        assert path is not None
        counts[path.name] = counts.get(path.name, 0) + 1
    return counts


def calls(counts: Mapping[str, int]) -> Mapping[str, int]:
    """The counts without the files that define: servers differ in what they call a reference there."""
    return {name: count for name, count in counts.items() if not name.startswith("greeting")}


def expected(language: str, text: str) -> int:
    """Uses in a file: imports count in Python, TypeScript and Rust."""
    imports = ("import greet", "import { greet }", "use crate")
    return text.count("greet(") + sum(text.count(one) for one in imports)


@EACH
async def test_references_follow_what_others_change(language: str, installed: Path, tmp_path: Path) -> None:
    async with pooled(language, installed, tmp_path) as (pool, root):
        used, text = next((n, t) for n, t in PROJECTS[language].items() if Path(n).stem == "user")
        user = Path(used).name
        assert calls(await references(pool, root, language)) == {user: expected(language, text)}
        more = text + text.splitlines()[-1].replace("y =", "w =").replace("y()", "w()") + "\n"
        (root / used).write_text(more)
        assert calls(await references(pool, root, language)) == {user: expected(language, more)}
        added, content = ADDED[language]
        (root / added).write_text(content)
        truth = {user: expected(language, more), Path(added).name: expected(language, content)}
        assert calls(await references(pool, root, language)) == truth
        (root / added).unlink()
        assert calls(await references(pool, root, language)) == {user: expected(language, more)}
        assert len({status.name for status in pool.status()}) == 1


@EACH
async def test_a_killed_server_is_replaced_without_a_word_lost(
    language: str, installed: Path, tmp_path: Path
) -> None:
    async with pooled(language, installed, tmp_path) as (pool, root):
        before = await references(pool, root, language)
        server = await server_for(pool, root / DEFINED[language][0])
        os.kill(server.pid, signal.SIGKILL)
        await until(lambda: server.ended, seconds=5)
        assert await references(pool, root, language) == before
        [status] = pool.status()
        assert (status.state, status.restarts) == ("ready", 1)
        assert "SIGKILL" in str(status.error)


@EACH
async def test_callers_at_once_share_one_server_and_one_truth(
    language: str, installed: Path, tmp_path: Path
) -> None:
    async with pooled(language, installed, tmp_path) as (pool, root):
        answers = await asyncio.gather(*(references(pool, root, language) for _ in range(10)))
        assert all(answer == answers[0] for answer in answers)
        assert len(pool.status()) == 1
        assert pool.status()[0].memory_bytes is None or pool.status()[0].memory_bytes > 10**7
