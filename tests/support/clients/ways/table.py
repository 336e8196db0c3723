"""The ways of starting, each with the agents that have it: what is started where, and what is read then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from support.clients.agent_table import AGENTS
from support.clients.ways.scene import FILE, Scene
from support.servers.models.formats.steps import Call


@dataclass(frozen=True)
class Way:
    """A way of starting.

    Attributes:
        title: what a person does.
        agents: those that have it.
        run: does it; what was read is in the scene.
    """

    title: str
    agents: tuple[str, ...]
    run: Callable[[Scene], Awaitable[None]]


WORK_TREE_OPTION: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("--worktree", "feature"),
    "qwen-code": ("--worktree", "feature"),
    "cline": ("--worktree",),
}
FOLDER_OPTION: Mapping[str, str] = {
    "codex": "-C",
    "opencode": "--dir",
    "copilot-cli": "-C",
    "kilo": "--dir",
    "cline": "--cwd",
}
RESUME_OPTION: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("--continue",),
    "codex": ("resume", "--last"),
    "gemini-cli": ("--resume", "latest"),
    "opencode": ("--continue",),
    "copilot-cli": ("--continue",),
    "qwen-code": ("--continue",),
    "kilo": ("--continue",),
    "continue": ("--resume",),
}


def _name(scene: Scene) -> str:
    return next(name for name, agent in AGENTS.items() if agent.client == scene.agent.client)


async def _terminal(scene: Scene) -> None:
    talk = scene.conversation()
    async with scene.start(talk, cwd=scene.a):
        await talk.read(scene.a)


async def _second_terminal(scene: Scene) -> None:
    first, second = scene.conversation(), scene.conversation()
    async with scene.start(first, cwd=scene.a):
        await first.read(scene.a)
        async with scene.start(second, cwd=scene.b):
            await second.read(scene.b)
        await first.read(scene.a)


async def _one_after_the_other(scene: Scene) -> None:
    for folder in (scene.a, scene.b):
        await _whole_session(scene, folder)


async def _whole_session(scene: Scene, folder: Path, *options: str) -> None:
    talk = scene.conversation()
    async with scene.start(talk, *options, cwd=folder) as running:
        await talk.read(folder)
        talk.finish()
        await running.process.wait()


async def _launcher(scene: Scene) -> None:
    """opencode and Kilo take the variable for their folder, the others their working directory."""
    talk = scene.conversation()
    async with scene.start(talk, cwd=scene.b, pwd=scene.a):
        await talk.read(scene.own_folder(talk))


async def _without_variable(scene: Scene) -> None:
    talk = scene.conversation()
    async with scene.start(talk, cwd=scene.b, has_pwd=False):
        await talk.read(scene.b)


async def _folder_option(scene: Scene) -> None:
    talk = scene.conversation()
    async with scene.start(talk, FOLDER_OPTION[_name(scene)], str(scene.b), cwd=scene.a):
        await talk.read(scene.b)


async def _package(scene: Scene) -> None:
    talk = scene.conversation()
    async with scene.start(talk, cwd=scene.package):
        await talk.read(scene.package)


async def _resume(scene: Scene) -> None:
    await _whole_session(scene, scene.a)
    await _whole_session(scene, scene.a, *RESUME_OPTION[_name(scene)])


async def _worktree(scene: Scene) -> None:
    talk = scene.conversation()
    async with scene.start(talk, *WORK_TREE_OPTION[_name(scene)], cwd=scene.a):
        await talk.read(scene.add_worktree())


async def _enter_worktree(scene: Scene) -> None:
    talk = scene.conversation()
    async with scene.start(talk, cwd=scene.a):
        await talk.read(scene.a)
        await talk.take(Call("EnterWorktree", {"name": "feature"}))
        await talk.read(scene.add_worktree())


async def _isolated(scene: Scene) -> None:
    await _in_isolated_agent(scene, is_absolute=False)


async def _isolated_absolute(scene: Scene) -> None:
    await _in_isolated_agent(scene, is_absolute=True)


async def _in_isolated_agent(scene: Scene, *, is_absolute: bool) -> None:
    outer, inner = scene.conversation(), scene.conversation()
    async with scene.start(outer, cwd=scene.a):
        arguments = {
            "description": "Read", "prompt": inner.prompt, "subagent_type": "general-purpose",
            "isolation": "worktree", "run_in_background": False,
        }  # fmt: skip
        outer.answer_with(Call("Agent", arguments))
        await inner.begin()
        worktree = scene.add_worktree()
        await inner.read(worktree, str(worktree / FILE) if is_absolute else FILE)


async def _background(scene: Scene) -> None:
    """The program ends at once; a daemon goes on with the session."""
    for folder in (scene.a, scene.b):
        talk = scene.conversation()
        options = ("--dangerously-skip-permissions", *scene.plugin_options, "--bg")
        command = (*scene.installed.command(scene.agent), *options, talk.prompt)
        async with scene.start(talk, cwd=folder, command=command, lasts=False):
            await talk.read(folder)
            talk.finish()


async def _screen(scene: Scene) -> None:
    for folder in (scene.a, scene.b):
        await _at_screen(scene, folder)


async def _screen_worktree(scene: Scene) -> None:
    await _at_screen(scene, scene.a, "--worktree")


async def _at_screen(scene: Scene, folder: Path, *options: str) -> None:
    talk = scene.conversation()
    given = ("--dangerously-bypass-approvals-and-sandbox", *options)
    command = (*scene.installed.command(scene.agent), *given, talk.prompt)
    async with scene.start(talk, cwd=folder, command=command, has_terminal=True):
        await talk.read(scene.add_worktree() if options else folder)
        talk.finish()


WAYS = {
    "terminal": Way("in a terminal, in A", tuple(AGENTS), _terminal),
    "second": Way(
        "in a second terminal, in B, while the first session works", tuple(AGENTS), _second_terminal
    ),
    "then": Way("in A, and after its end in B (a hub of its own goes on)", ("cline",), _one_after_the_other),
    "launcher": Way("by a program that starts it in B with its own `PWD`, A", tuple(AGENTS), _launcher),
    "no-pwd": Way("by a program that starts it in B without `PWD`", tuple(AGENTS), _without_variable),
    "folder": Way("in A, with its option for another folder, B", tuple(FOLDER_OPTION), _folder_option),
    "package": Way("in a package of a monorepo", tuple(AGENTS), _package),
    "resume": Way("going on with an earlier session", tuple(RESUME_OPTION), _resume),
    "worktree": Way("with `--worktree`", tuple(WORK_TREE_OPTION), _worktree),
    "screen": Way("on its screen (daemon): `codex` in A, then in B", ("codex",), _screen),
    "screen-worktree": Way("on its screen, with `--worktree`", ("codex",), _screen_worktree),
    "background": Way("`claude --bg` in A, then in B", ("claude-code",), _background),
    "enter-worktree": Way("its model calls `EnterWorktree`", ("claude-code",), _enter_worktree),
    "isolated": Way("a sub-agent with `isolation: worktree`", ("claude-code",), _isolated),
    "isolated-absolute": Way("the same, naming the file absolutely", ("claude-code",), _isolated_absolute),
}
