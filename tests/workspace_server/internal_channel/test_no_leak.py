"""A secret appears in the store and in the answer to its request, and nowhere else."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from support.processes.timeouts import within

CANARY = "canary-" + "5e1d" * 8

PROGRAM = """
import asyncio, logging, sys
from pathlib import Path
from workspace_server import log
from workspace_server.internal_channel.channel import make_channel
from workspace_server.secrets.store import open_store

class Tools:
    async def listed(self): return []
    async def call(self, name, arguments): raise RuntimeError(f"{name} was called with {arguments}")

async def main(folder):
    store = open_store(folder / "state", {})
    channel = make_channel(workspace="w", root=folder, folders=[folder], config_dir=folder / "config",
        state_dir=folder / "state", runtime_dir=folder / "run", store=store, toolbox=Tools(), version="0")
    await channel.start()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await channel.stop()

log.adopt_libraries()
logging.getLogger().setLevel(logging.DEBUG)
asyncio.run(main(Path(sys.argv[1])), debug=True)
"""


async def test_a_secret_appears_in_the_answer_only(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(tmp_path), cwd=Path(__file__).resolve().parents[3],
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert await asyncio.wait_for(child.stdout.readline(), within(10)) == b"ready\n"
    found = json.loads((tmp_path / "run" / "internal" / "w.json").read_text())
    reader, writer = await asyncio.open_unix_connection(found["socket"])

    async def ask(method: str, **params: object) -> bytes:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"auth": found["auth"], **params}}
        writer.write(json.dumps(body).encode() + b"\n")
        while b'"id"' not in (line := await asyncio.wait_for(reader.readline(), within(5))):
            assert CANARY.encode() not in line
        return line

    quiet = [
        await ask("secrets/store", key="k", value=CANARY),
        await ask("tools/call", name="openllm_secrets_set", arguments={"key": "k", "value": CANARY}),
        await ask("tools/call", name="openllm_secrets_set", arguments={"key": CANARY + "/", "value": CANARY}),
        await ask(
            "tools/call", name="openllm_secrets_set", arguments={"key": "k", "value": {CANARY: CANARY}}
        ),
        await ask("secrets/store", key="k", value=CANARY, **{CANARY: CANARY}),
        await ask("secrets/store", key="k", value=CANARY * 2000),
        await ask("tools/call", name="use_it", arguments={"token": CANARY}),
        await ask("secrets/list"),
        await ask("tools/list"),
    ]
    assert CANARY.encode() in await ask("secrets/get", key="k")
    writer.write(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"auth":"%s"' % CANARY.encode() + b"}]\n")
    quiet.append(await asyncio.wait_for(reader.readline(), within(5)))
    shown = [Path(f"/proc/{child.pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    writer.close()
    said, logged = await asyncio.wait_for(child.communicate(b""), within(10))
    assert b"internal_method_failed" in logged, "what happens is logged"
    assert len(files) >= 4
    for text in (*quiet, *shown, *files, said, logged):
        assert CANARY.encode() not in text
    assert found["auth"].encode() not in said + logged
