"""Sends requests whose claims about their workspace contradict each other, and looks for wrong answers.

Usage: python -m scripts.reliability.workspace_claims [--requests 10000] [--seed N]

Real projects, git worktrees, folders that only claim to be one, links (one of which changes its target),
folders in no project and removed folders stand in addresses, headers, metadata, roots and arguments.
Each answer says from which project it came. What would be right is computed here, by the rule that users are
told, and not by the manager's code. Exit code 1: a wrong answer, or a refusal without a contradiction.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Client
from support.clients.rooted_clients import RootedSession, RootedStateless
from support.processes.managers.manager_in_process import RunningManager, make_project, running_manager
from support.projects.registered_setup import raw_http

SIGN: Final = "which-project.txt"
CLIENTS: Final = 8
NOWHERE, GONE, BLANK, TOP, FLIPS = "nowhere", "gone", "blank", "top", "link that changes"
_BLANKS: Final = ("", "${PWD}", "{env:PWD}", "$PWD")
_SHOWN_FAULTS: Final = 5


@dataclass(frozen=True)
class Place:
    """A text that a client may send, and the project that it means, or why it means none."""

    text: str
    project: str

    def now(self, flipped_to: str) -> Place:
        """The place while the changing link leads to this project."""
        return replace(self, project=flipped_to) if self.project == FLIPS else self


class World:
    """The projects, and everything that could be taken for one of them."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.roots = {name: self._project(name) for name in ("alpha", "beta", "two words", "größe+")}
        self.roots["alpha/sub"] = self._project("alpha/sub")
        self._add_worktrees()
        for name in ("packages/web", "src"):
            (self.roots["alpha"] / name).mkdir(parents=True)
        (top / "outside").mkdir()
        self._flips = top / "link-that-changes"
        self._flips.symlink_to(self.roots["alpha"])
        (top / "link").symlink_to(self.roots["beta"])
        self.flipped_to = "alpha"

    def _project(self, name: str) -> Path:
        root = make_project(self.top / name, **{SIGN: _sign(name)})
        (root / ".git").rmdir()
        _git(root, "init", "-q")
        return root

    def _add_worktrees(self) -> None:
        """Two real ones, and a folder whose `.git` file claims the first one's place in the repository."""
        alpha = self.roots["alpha"]
        _git(alpha, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "x")
        for name, folder in (("tree", alpha / ".claude/worktrees/tree"), ("far tree", self.top / "far-tree")):
            _git(alpha, "worktree", "add", "-q", "--detach", str(folder))
            self.roots[name] = folder
        claiming = self.top / "claims"
        claiming.mkdir()
        shutil.copyfile(self.roots["tree"] / ".git", claiming / ".git")
        self.roots["claims"] = claiming
        for name in ("tree", "far tree", "claims"):
            (self.roots[name] / SIGN).write_text(_sign(name))

    def flip(self) -> None:
        """Let the changing link lead to the other project."""
        self.flipped_to = "beta" if self.flipped_to == "alpha" else "alpha"
        other = self._flips.with_name("link-to-be")
        other.symlink_to(self.roots[self.flipped_to])
        other.replace(self._flips)  # at no moment is there no link

    def places(self) -> list[Place]:
        """All folders, as plain paths."""
        inside = self.roots["alpha"]
        return [
            *(Place(str(root), name) for name, root in self.roots.items()),
            Place(str(inside / "packages/web"), "alpha"),
            Place(f"{inside}/src/", "alpha"),
            Place(str(self.top / "link"), "beta"),
            Place(str(self._flips), FLIPS),
            Place(str(self.top / "outside"), NOWHERE),
            Place(str(self.top / "removed"), GONE),
        ]


def _sign(name: str) -> str:
    """What stands in the file of a project; in no path."""
    return f"<<{name}>>"


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, timeout=30)


@dataclass
class Said:
    """What a request says of its workspace."""

    path: Place | None = None
    query: Place | None = None
    pinned: bool = False
    header: Place | None = None
    codex: Place | None = None
    roots: list[Place] = field(default_factory=list)
    cwd: Place | None = None
    bound: str | None = None

    def right(self) -> str | None:
        """The project that must answer; None if the request must be refused."""
        explicit = [
            place.project for place in (self.path, self.query if self.pinned else None, self.cwd) if place
        ]
        if explicit:
            return explicit[0] if _is_project(explicit[0]) and len(set(explicit)) == 1 else None
        if self.bound is not None:
            return self.bound
        uncertain = self._uncertain()
        certain = [{self.codex.project}] if self.codex is not None and self.codex.project != BLANK else []
        roots = {place.project for place in self.roots if place.project != TOP}
        certain += [roots] if roots else []
        if not certain:
            return next(iter(uncertain)) if len(uncertain) == 1 and _is_project(*uncertain) else None
        allowed = {project for project in certain[0] if all(project in other for other in certain)}
        allowed = {project for project in allowed if _is_project(project)}
        if self.codex is None or self.codex.project == BLANK:
            chosen = [place for place in (self.query, self.header) if place and place.project in allowed]
            if chosen:
                return chosen[0].project
        return next(iter(allowed)) if len(allowed) == 1 else None

    def now(self, flipped_to: str) -> Said:
        """The same while the changing link leads to this project."""
        claims = {name: getattr(self, name) for name in ("path", "query", "header", "codex", "cwd")}
        places = {name: place and place.now(flipped_to) for name, place in claims.items()}
        return replace(self, **places, roots=[place.now(flipped_to) for place in self.roots])

    def _uncertain(self) -> set[str]:
        sent = [place.project for place in (None if self.pinned else self.query, self.header) if place]
        sent = [project for project in sent if project != BLANK]
        return set(sent) - {GONE} or set(sent)


def _is_project(name: str) -> bool:
    return name not in (NOWHERE, GONE, BLANK, TOP)


class Requests:
    """Makes requests at random, sends them, and compares the answers with what is right."""

    def __init__(
        self, world: World, manager: RunningManager, http: ClientSession, chance: random.Random
    ) -> None:
        self._world = world
        self._manager = manager
        self._http = http
        self._chance = chance
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._ids: dict[str, str] = {}
        self._left = 0

    async def learn_ids(self) -> None:
        """Learn the ids of all workspaces; this also starts their servers."""
        client = RootedStateless(self._http, self._manager.address)
        for name, root in self._world.roots.items():
            self._ids[name] = (await client.handshake(root)).payload["workspace"]

    async def run(self, count: int) -> None:
        """Send so many requests, several at a time."""
        self._left = count
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    async def _client(self) -> None:
        while self._left > 0:
            await self._stateless() if self._chance.random() < 0.5 else await self._session()

    def _begin(self) -> bool:
        """Count a request; False if there were enough. The changing link changes now and then."""
        self._left -= 1
        if self._left % 97 == 0:
            self._world.flip()
        return self._left >= 0

    def _place(self) -> Place:
        return self._chance.choice(self._world.places())

    def _maybe(self, share: float) -> Place | None:
        if self._chance.random() >= share:
            return None
        if self._chance.random() < 0.1:
            return Place(self._chance.choice(_BLANKS), BLANK)
        return self._place()

    def _said(self) -> Said:
        said = Said(query=self._maybe(0.6), header=self._maybe(0.3), codex=self._maybe(0.25))
        if self._chance.random() < 0.2:
            said.header = said.query
        if self._chance.random() < 0.1 and said.query is not None and said.query.project != BLANK:
            said.pinned = True
        if self._chance.random() < 0.1:
            name = self._chance.choice(list(self._ids))
            said.path = Place(self._ids[name], name)
        if self._chance.random() < 0.1:
            said.cwd = self._place()
        return said

    def _roots(self) -> list[Place]:
        count = self._chance.choice((0, 1, 1, 1, 2))
        uris = [
            Place(Path(place.text).as_uri(), place.project) for place in (self._place() for _ in range(count))
        ]
        return [*uris, Place("file:///", TOP)] if self._chance.random() < 0.1 else uris

    def _url(self, said: Said) -> str:
        base = f"{self._manager.base}/w/{said.path.text}/mcp" if said.path else self._manager.address
        if said.query is None:
            return base
        return f"{base}?cwd={quote(said.query.text)}{'&pin=true' if said.pinned else ''}"

    def _call(self, said: Said) -> dict[str, Any]:
        params: dict[str, Any] = {"name": "lm_readFile", "arguments": {"filePath": SIGN}}
        if said.cwd is not None:
            params = {"name": names.CALL_TOOL, "arguments": {**params, "cwd": said.cwd.text}}
        if said.codex is not None:
            params["_meta"] = {names.CODEX_SANDBOX: {"sandboxCwd": said.codex.text}}
        return params

    def _address(self, client: Client, said: Said) -> None:
        client.url = self._url(said)
        client.extra = (
            {} if said.header is None else {headers.WORKSPACE_CWD: headers.encode_value(said.header.text)}
        )

    async def _stateless(self) -> None:
        """A stateless client that repeats a call, so that the later ones may take the fast path."""
        said = self._said()
        client = RootedStateless(self._http, self._manager.address)
        client.capabilities = {"roots": {}} if self._chance.random() < 0.5 else {}
        self._address(client, said)
        params = self._call(said)
        for _ in range(self._chance.randrange(1, 5)):
            if not self._begin():
                return
            flipped = self._world.flipped_to
            answer = await client.ask(names.TOOLS_CALL, params)
            if "result" in answer.message and answer.result.get("resultType") == "input_required":
                said.roots, flipped = self._roots(), self._world.flipped_to
                answer = await client.answered(answer, [place.text for place in said.roots], params)
            self._judge(said, answer.message, flipped)

    async def _session(self) -> None:
        """A session with several requests, whose claims differ from one to the next, or stay the same."""
        kind = self._chance.choice((RootedSession, RootedSession, _Silent, _Rootless))
        client = await kind.connect(self._http, self._manager.address)
        bound = None
        if self._chance.random() < 0.15:
            bound = self._chance.choice(list(self._ids))
            await client.handshake(self._world.roots[bound])
        said, roots = self._said(), list[Place]()
        for turn in range(self._chance.randrange(1, 9)):
            if not self._begin():
                return
            if turn == 0 or self._chance.random() < 0.2:
                roots = [] if kind is _Rootless else self._roots()
                client.has(*(place.text for place in roots))
                if kind is RootedSession:
                    await client.notify(names.ROOTS_CHANGED)
            if self._chance.random() < 0.3:
                said = self._said()
            said.bound, said.roots = bound, roots
            self._address(client, said)
            flipped = self._world.flipped_to
            heard = await client.listen(names.TOOLS_CALL, self._call(said))
            self._judge(said, heard.response, flipped)

    def _judge(self, said: Said, message: dict[str, Any], flipped: str) -> None:
        """Compare an answer with what is right, unless the changing link changed meanwhile."""
        if flipped != self._world.flipped_to:
            self.counts["not judged"] += 1
            return
        result = message.get("result", {})
        text = "" if result.get("isError") else str((result.get("content") or [{}])[0].get("text", ""))
        served = next((name for name in self._ids if _sign(name) in text), None)
        right = said.now(flipped).right()
        if served == right:
            self.counts["refused" if right is None else "right"] += 1
            return
        self.counts["wrong" if served is not None else "refused without a reason"] += 1
        self.faults.append(f"served {served}, right is {right}: {said} {message if served is None else ''}")


class _Silent(RootedSession):
    """It changes its roots without a word, as its profile says."""

    name = "claude-code"


class _Rootless(RootedSession):
    capabilities: dict[str, Any] = {}  # noqa: RUF012  as its base has it


async def run(count: int, seed: int, folder: Path) -> Requests:
    """Send so many requests in a new world in this folder; return what became of them."""
    async with contextlib.AsyncExitStack() as stack:
        manager = await stack.enter_async_context(running_manager(folder / "manager"))
        http = await stack.enter_async_context(raw_http())
        requests = Requests(World(folder / "world"), manager, http, random.Random(seed))
        await requests.learn_ids()
        await requests.run(count)
        return requests


def main() -> int:
    """Run, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    options = parser.parse_args()
    print(f"{options.requests} requests, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        requests = asyncio.run(run(options.requests, options.seed, Path(folder).resolve()))
    print(*(f"{count:7,}  {word}" for word, count in requests.counts.most_common()), sep="\n")
    print(*requests.faults[:_SHOWN_FAULTS], sep="\n")
    return 1 if requests.faults else 0


if __name__ == "__main__":
    sys.exit(main())
