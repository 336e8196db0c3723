"""Tests of what a person may name, and of the names and versions that reach npm, npx, uv and uvx."""

from __future__ import annotations

import pytest

from lm_tools_bridge.published_servers.server_names import (
    Address,
    DocumentFile,
    PackageName,
    Refusal,
    RegistryName,
    SearchWord,
    namespace_for,
    namespace_for_address,
    namespace_problem,
    parse_origin,
)


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("npm:@scope/server-x", PackageName("npm", "@scope/server-x")),
        ("npm:@scope/server-x@1.2.3-rc.1", PackageName("npm", "@scope/server-x", "1.2.3-rc.1")),
        ("npm:plain@10.0.0+build", PackageName("npm", "plain", "10.0.0+build")),
        ("pypi:mcp-server-time", PackageName("pypi", "mcp-server-time")),
        ("pypi:mcp_server.time==2025.7.1", PackageName("pypi", "mcp_server.time", "2025.7.1")),
        ("pypi:x@1!2.0.post3.dev4+local", PackageName("pypi", "x", "1!2.0.post3.dev4+local")),
        ("https://mcp.example.com/mcp?a=b", Address("https://mcp.example.com/mcp?a=b")),
        ("http://localhost:3000/mcp", Address("http://localhost:3000/mcp")),
        ("server.json", DocumentFile("server.json")),
        ("./folder/server", DocumentFile("./folder/server")),
        ("io.github.someone/weather", RegistryName("io.github.someone/weather")),
        ("io.github.someone/weather@1.0.0", RegistryName("io.github.someone/weather", "1.0.0")),
        ("weather", SearchWord("weather")),
    ],
)  # fmt: skip
def test_what_a_person_names(text: str, origin: object) -> None:
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        "", "-e", "--eval", "npm:", "npm:-e", "npm:--eval=1", "npm:../x", "npm:/etc/x", "npm:a b", "npm:a;b", "npm:@scope",
        "npm:https://evil.example/x.tgz", "npm:github:a/b", "npm:a\u202eb", "npm:a\n", "npm:" + "a" * 215,
        "npm:a@latest", "npm:a@^1.2.3", "npm:a@1.x", "npm:a@1", "npm:a@", "npm:a@npm:b@1.0.0", "npm:a@1.0.0 -e",
        "pypi:-r", "pypi:a@ file:///x", "pypi:a[extra]", "pypi:a>=1", "pypi:a==1.*", "pypi:a==", "pypi:a==1.0;x",
        "pypi:.", "pypi:git+https://x", "https://user:pass@x.example/mcp", "ftp://x.example", "https://", "https://x/ y",
        "https://x.example/#f", "https://x.example/\x1b[2J", "a/b/c", "-a/b", "a/-b", "weather app",
    ],
)  # fmt: skip
def test_what_could_be_an_option_a_path_or_another_version_tomorrow_is_refused(text: str) -> None:
    refusal = parse_origin(text)
    assert isinstance(refusal, Refusal)
    assert (refusal.message + refusal.next_step).isprintable()


@pytest.mark.parametrize(
    ("name", "namespace"),
    [
        ("@modelcontextprotocol/server-filesystem", "filesystem"),
        ("mcp-server-time", "time"),
        ("io.github.someone/weather-mcp", "weather"),
        ("some.thing", "some-thing"),
        ("mcp", "mcp"),
        ("server", "server"),
        ("x" * 60, "x" * 40),
    ],
)
def test_a_server_gets_the_short_name_of_its_package(name: str, namespace: str) -> None:
    assert namespace_for(name) == namespace
    assert namespace_problem(namespace) is None


@pytest.mark.parametrize(
    ("url", "namespace"),
    [
        ("https://mcp.linear.app/mcp", "linear"),
        ("https://api.example.com/x", "example"),
        ("http://127.0.0.1:8000/mcp", "server"),
        ("http://localhost/mcp", "localhost"),
    ],
)
def test_a_server_gets_the_name_of_its_host(url: str, namespace: str) -> None:
    assert namespace_for_address(url) == namespace


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "x" * 41, "a\x1b"])
def test_a_name_that_cannot_begin_the_names_of_tools_is_refused(name: str) -> None:
    assert namespace_problem(name) is not None
