"""Keys in the user's secret store, over the internal channel of a real workspace server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.agent.key_sources import StoredKeys
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.provider_keys import Key, KeyLookup, KeySourceFailed, KeyWish, wish_for
from support.clients.model_replies import ask, provider_of
from support.servers.models.formats.steps import say
from support.servers.models.model_server import model_server
from workspace_server.internal_channel.channel import make_channel
from workspace_server.secrets.store import open_store

KEY = "stored-canary-88bb88bb"


class Tools:
    async def listed(self) -> list[Any]:
        return []

    async def call(self, name: str, arguments: Any) -> Any:
        raise AssertionError(name)


@contextlib.asynccontextmanager
async def channel(folder: Path, workspace: str = "w") -> AsyncIterator[None]:
    """The channel of one workspace server."""
    made = make_channel(
        workspace=workspace, root=folder, folders=[folder], config_dir=folder / "config", state_dir=folder / "state",
        runtime_dir=folder / "run", store=open_store(folder / "state", {}), toolbox=Tools(), version="0",
    )  # fmt: skip
    await made.start()
    try:
        yield
    finally:
        await made.stop()


async def no_pause(_: float) -> None:
    return None


async def test_a_stored_key_is_found_with_its_source(tmp_path: Path) -> None:
    async with channel(tmp_path):
        store = StoredKeys(tmp_path / "run")
        await store.store("gemini", KEY)
        assert await store.find(wish_for("gemini")) == Key(KEY, "store", "gemini")
        assert await store.find(wish_for("google")) == Key(KEY, "store", "gemini")
        assert await store.find(wish_for("openai")) is None


async def test_a_provider_uses_the_stored_key(tmp_path: Path) -> None:
    async with channel(tmp_path), model_server(say("ok"), key=KEY) as server:
        store = StoredKeys(tmp_path / "run")
        await store.store("anthropic", KEY)
        async with provider_of("anthropic", server, KeyLookup([store])) as provider:
            assert (await ask(provider)).text == "ok"


async def test_what_dead_servers_left_behind_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "run/internal"
    folder.mkdir(parents=True, mode=0o700)
    for name, content in (
        ("a", "{"),
        ("b", json.dumps({"socket": str(tmp_path / "gone"), "auth": "x"})),
        ("c", "[]"),
    ):
        (folder / f"{name}.json").write_text(content)
        (folder / f"{name}.json").chmod(0o600)
    async with channel(tmp_path):
        store = StoredKeys(tmp_path / "run")
        await store.store("openai", KEY)
        assert await store.find(wish_for("openai")) == Key(KEY, "store", "openai")


async def test_a_file_that_others_may_read_gets_no_question(tmp_path: Path) -> None:
    async with channel(tmp_path):
        [file] = (tmp_path / "run/internal").glob("*.json")
        file.chmod(0o644)
        with pytest.raises(KeySourceFailed):
            await StoredKeys(tmp_path / "run", settle_s=0).find(wish_for("openai"))


async def test_without_a_workspace_server_the_person_learns_what_to_run(tmp_path: Path) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    store = StoredKeys(tmp_path / "run", settle_s=1, pause=pause)
    with pytest.raises(KeySourceFailed, match="no workspace server of yours runs; run: lmtb up"):
        await store.find(wish_for("openai"))
    assert len(pauses) == 10
    with pytest.raises(KeySourceFailed):
        await store.find(wish_for("openai"))
    assert len(pauses) == 10  # it waits only the first time
    unhurried = StoredKeys(tmp_path / "run", settle_s=1, pause=pause)
    with pytest.raises(KeySourceFailed):
        await unhurried.find(KeyWish(("X",), ("x",), may_wait=False))
    assert len(pauses) == 10
    async with provider_of("openai", "", KeyLookup([store])) as provider:
        with pytest.raises(
            ProviderFailure, match=r"there is no key \(the secret store cannot be read.*OPENAI_API_KEY"
        ):
            await ask(provider)


async def test_a_channel_that_opens_a_moment_later_is_waited_for(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as stack:

        async def pause(_: float) -> None:
            if not (tmp_path / "run").exists():
                await stack.enter_async_context(channel(tmp_path))

        assert await StoredKeys(tmp_path / "run", pause=pause).find(wish_for("openai")) is None


async def test_a_refusal_of_the_store_is_told(tmp_path: Path) -> None:
    async with channel(tmp_path):
        with pytest.raises(KeySourceFailed, match="the secret store refused: "):
            await StoredKeys(tmp_path / "run").store("no name", KEY)


async def test_a_silent_channel_is_left_after_its_deadline(tmp_path: Path) -> None:
    folder = tmp_path / "internal"
    folder.mkdir(mode=0o700)
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_unix_server(silent, tmp_path / "s")
    (folder / "w.json").write_text(json.dumps({"socket": str(tmp_path / "s"), "auth": "x"}))
    (folder / "w.json").chmod(0o600)
    async with server:
        with pytest.raises(KeySourceFailed):
            await StoredKeys(tmp_path, settle_s=0, answer_s=0.05).find(wish_for("openai"))
        await left.wait()
