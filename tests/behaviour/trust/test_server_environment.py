"""What of the manager's environment reaches configurations, stdio servers and scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from support.projects.gateway import Gateway, listed, running_gateway, text_of

pytestmark = pytest.mark.processes

SECRET = "s3cret-of-the-manager"
SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    result = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "s", "version": "1"}},
              "tools/list": {"tools": [{"name": "env", "inputSchema": {"type": "object"}}]},
              "tools/call": {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}}
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result.get(message["method"], {})}
        print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """The manager's environment: a token, a proxy, a certificate."""
    monkeypatch.setenv("PLAIN_TOKEN", SECRET)
    monkeypatch.setenv("https_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("SSL_CERT_FILE", "/certs.pem")
    monkeypatch.delenv("MISSING_TOKEN", raising=False)


async def environment_of(gateway: Gateway, tool: str) -> dict[str, str]:
    project = gateway.project("proj")
    found: dict[str, str] = json.loads(await text_of(project.modern, tool))
    return found


@pytest.mark.usefixtures("environ")
async def test_a_stdio_server_gets_only_the_variables_that_its_entry_names(tmp_path: Path) -> None:
    """And those for proxies and certificates, which no entry has to name."""
    (tmp_path / "server.py").write_text(SERVER)
    async with running_gateway(tmp_path) as gateway:
        gateway.configure(f"""
            [[mcp.stdio_servers]]
            namespace = "one"
            command = [{json.dumps(sys.executable)}, "-I", "-S", {json.dumps(str(tmp_path / "server.py"))}]
            env = {{ NAMED = "${{PLAIN_TOKEN:-default}}", OTHER = "${{MISSING_TOKEN:-default}}" }}
        """)
        shown = await environment_of(gateway, "one__env")
    assert (shown["NAMED"], shown["OTHER"]) == (SECRET, "default")
    assert "PLAIN_TOKEN" not in shown
    assert (shown["https_proxy"], shown["SSL_CERT_FILE"]) == ("http://proxy.invalid:3128", "/certs.pem")


@pytest.mark.usefixtures("environ")
async def test_a_script_gets_no_variables_but_those_that_were_promised(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.user_tool("env", "import json, os\nprint(json.dumps(dict(os.environ)))\n")
        shown = await environment_of(gateway, "env")
    assert not {"PLAIN_TOKEN", "https_proxy", "SSL_CERT_FILE"} & shown.keys()


@pytest.mark.usefixtures("environ")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_the_manager_s_variables_are_in_no_server_s_environment(tmp_path: Path) -> None:
    """They come with the launch instructions, so that nothing the server starts can inherit them."""
    async with running_gateway(tmp_path) as gateway:
        await listed(gateway.project("proj").modern)
        async with gateway.http.get(gateway.manager.base + "/mcp/status") as response:
            (instance,) = (await response.json())["instanceDetails"]
        assert b"PLAIN_TOKEN" not in Path(f"/proc/{instance['pid']}/environ").read_bytes()


def everywhere(named: str) -> dict[str, dict[str, Any]]:
    """Entries of a project that name a variable wherever an entry can."""
    return {
        "command": {"command": named, "args": [named]},
        "env": {"command": "true", "env": {"A": named}, "cwd": f"/{named}"},
        "file": {"command": "true", "envFile": f"/{named}"},
        "url": {"url": f"https://{named}.example.invalid/{named}"},
        "invalid": {"url": f"no-url-{named}"},
        "header": {"url": "https://example.invalid", "headers": {"Authorization": f"Bearer {named}"}},
        "bad header": {"url": "https://example.invalid", "headers": {"A": f"{named}\n"}},
    }


@pytest.mark.usefixtures("environ")
async def test_an_untrusted_project_cannot_read_the_manager_s_environment(tmp_path: Path) -> None:
    """No answer to a client and nothing that the user is shown has the value."""
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("proj")
        project.servers(**everywhere("${PLAIN_TOKEN}"))
        folder = project.root / ".lm-tools-bridge"
        folder.mkdir()
        (folder / "workspace.toml").write_text("""
            useWorkspaceSettings = true
            [scripts]
            tools_path = ["${PLAIN_TOKEN}"]
            libraries_path = ["/${PLAIN_TOKEN}"]
            [tools]
            schemaDefaults = ["lm_findFiles.query=${PLAIN_TOKEN}"]
            [[mcp.remote_servers]]
            namespace = "token"
            url = "https://example.invalid"
            token = "${PLAIN_TOKEN}"
        """)
        client = await project.legacy()
        shown = [
            (await client.ask("tools/list")).body.decode(),
            (await project.modern.ask("tools/list")).body.decode(),
            (await project.modern.handshake(project.root)).body.decode(),
            (await project.modern.call("command__x")).body.decode(),
            json.dumps(await project.inspect()),
        ]
        states = {one["namespace"]: one["state"] for one in (await project.inspect())["sources"]}
        async with gateway.http.get(gateway.manager.base + "/mcp/status") as response:
            shown.append(await response.text())
        log = "".join(one.read_text() for one in gateway.manager.paths.logs_dir.glob("*.log"))
    assert {states[name] for name in ("command", "env", "url", "header", "token")} == {"pending_trust"}
    assert [text for text in (*shown, log) if SECRET in text] == []
