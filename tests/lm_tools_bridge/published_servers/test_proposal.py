"""Tests of the entries that descriptions of servers become, and of what strangers may not have written."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lm_tools_bridge.published_servers.proposal import Proposal, propose, propose_address, propose_package
from lm_tools_bridge.published_servers.server_document import ServerDocument
from lm_tools_bridge.published_servers.server_names import Address, PackageName, Refusal


def document(**members: Any) -> ServerDocument:
    return msgspec.convert({"name": "io.example/weather", **members}, ServerDocument)


def package(**members: Any) -> dict[str, Any]:
    return {"registryType": "npm", "identifier": "@example/weather", "version": "1.2.3", **members}


def remote(**members: Any) -> dict[str, Any]:
    return {"type": "streamable-http", "url": "https://mcp.example.com/mcp", **members}


def proposed(**members: Any) -> Proposal:
    proposal, refusals = propose(document(**members), "weather")
    assert proposal is not None, refusals
    return proposal


def refused(**members: Any) -> Refusal:
    proposal, refusals = propose(document(**members), "weather")
    assert proposal is None
    assert all((refusal.message + refusal.next_step).isprintable() for refusal in refusals)
    return refusals[0]


def test_a_package_that_a_person_names_becomes_a_pinned_command() -> None:
    npm = propose_package(PackageName("npm", "@example/weather", "1.2.3"), "weather")
    pypi = propose_package(PackageName("pypi", "weather", "2.0"), "w")
    assert npm.entry({}) == {"namespace": "weather", "command": ["npx", "-y", "@example/weather@1.2.3"]}
    assert pypi.entry({}) == {"namespace": "w", "command": ["uvx", "weather@2.0"]}


def test_an_address_that_a_person_names_stays_as_it_is() -> None:
    proposal = propose_address(Address("http://localhost:3000/mcp?x={y}"), "here")
    assert (proposal.kind, proposal.needs) == ("remote_servers", ())
    assert proposal.entry({}) == {"namespace": "here", "url": "http://localhost:3000/mcp?x={y}"}


def test_arguments_and_variables_follow_the_package_and_secrets_are_only_named() -> None:
    proposal = proposed(
        packages=[
            package(
                runtimeHint="node",
                runtimeArguments=[{"type": "positional", "value": "-y"}],
                packageArguments=[
                    {"type": "positional", "value": "serve"},
                    {"type": "named", "name": "--units", "default": "metric", "choices": ["metric", "imperial"], "isRequired": True},
                    {"type": "positional", "valueHint": "folder"},
                    {"type": "named", "name": "--host", "value": "{host}:80", "variables": {"host": {"isRequired": True}}},
                ],
                environmentVariables=[
                    {"name": "API_KEY", "isSecret": True, "isRequired": True},
                    {"name": "OTHER_KEY", "isSecret": True},
                    {"name": "LEVEL", "value": "info"},
                ],
            )
        ]
    )  # fmt: skip
    assert [need.name for need in proposal.needs if need.is_required] == ["--units", "host", "API_KEY"]
    answers = {"--units": "metric", "host": "h", "API_KEY": "canary"}
    assert proposal.entry(answers) == {
        "namespace": "weather",
        "command": ["npx", "-y", "@example/weather@1.2.3", "serve", "--units", "metric", "--host", "h:80"],
        "env": {"LEVEL": "info"},
        "env_secrets": {"API_KEY": "weather.API_KEY"},
    }
    assert proposal.stored(answers) == {"API_KEY": "weather.API_KEY"}
    assert proposal.needs[0].problem_of("stone") == "has to be one of metric, imperial"


def test_an_address_gets_its_variables_quoted_and_its_credentials_from_the_store() -> None:
    proposal = proposed(
        remotes=[
            remote(
                url="https://{tenant}.example.com/mcp/{path}",
                variables={"tenant": {"isRequired": True}, "path": {"isRequired": True}},
                headers=[
                    {"name": "Authorization", "value": "Bearer {token}", "variables": {"token": {"isSecret": True, "isRequired": True}}},
                    {"name": "X-Api-Key", "isSecret": True, "isRequired": True},
                    {"name": "X-Region", "value": "eu"},
                ],
            )
        ]
    )  # fmt: skip
    answers = {"tenant": "acme", "path": "a/b?c", "token": "", "X-Api-Key": ""}
    assert proposal.entry(answers) == {
        "namespace": "weather",
        "url": "https://acme.example.com/mcp/a%2Fb%3Fc",
        "token_secret": "weather.token",
        "headers": {"X-Api-Key": "${WEATHER_X_API_KEY}", "X-Region": "eu"},
    }
    assert proposal.exported(answers) == ("WEATHER_X_API_KEY",)
    assert proposal.stored(answers) == {"token": "weather.token"}


def test_packages_come_before_addresses_unless_the_person_wants_these() -> None:
    both = document(packages=[package()], remotes=[remote(type="sse", url="https://x.example.com/sse")])
    first, _ = propose(both, "weather")
    second, _ = propose(both, "weather", is_remote=True)
    assert first is not None
    assert second is not None
    assert first.kind == "stdio_servers"
    assert second.entry({}) == {
        "namespace": "weather",
        "url": "https://x.example.com/sse",
        "transport": "sse",
    }


def test_a_way_that_is_left_out_is_told() -> None:
    proposal, refusals = propose(
        document(packages=[package(registryType="oci")], remotes=[remote()]), "weather"
    )
    assert proposal is not None
    assert proposal.kind == "remote_servers"
    (refusal,) = refusals
    assert refusal.message.startswith("the oci package @example/weather is not from npm or PyPI")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"identifier": "--eval"}, "cannot be named"),
        ({"identifier": "-e"}, "cannot be named"),
        ({"identifier": "x --eval y"}, "cannot be named"),
        ({"identifier": "https://evil.example/x.tgz"}, "cannot be named"),
        ({"identifier": "github:evil/x"}, "cannot be named"),
        ({"identifier": "x\x1b[2J"}, "cannot be named"),
        ({"version": ""}, "names no version"),
        ({"version": "latest"}, "cannot be named"),
        ({"version": "^1.0.0"}, "cannot be named"),
        ({"version": "1.0.0 --eval"}, "cannot be named"),
        ({"registryBaseUrl": "https://evil.example"}, "not from the usual index"),
        ({"registryType": "oci"}, "not from npm or PyPI"),
        ({"registryType": "mcpb"}, "not from npm or PyPI"),
        ({"transport": {"type": "streamable-http", "url": "http://localhost:{port}"}}, "opens a port"),
        ({"runtimeArguments": [{"type": "named", "name": "-e", "value": "process.exit()"}]}, "the option '-e process.exit()' of npx"),
        ({"runtimeArguments": [{"type": "named", "name": "--package", "value": "evil"}]}, "the option"),
        ({"runtimeArguments": [{"type": "positional", "value": "--registry=https://evil.example"}]}, "the option"),
        ({"runtimeArguments": [{"type": "named", "name": "-y", "value": "--call"}]}, "the option"),
        ({"runtimeArguments": [{"value": "-y"}], "registryType": "pypi", "identifier": "x"}, "the option '-y' of uvx"),
        ({"environmentVariables": [{"name": "NODE_OPTIONS", "value": "--require=/tmp/x"}]}, "decides what programs load"),
        ({"environmentVariables": [{"name": "npm_config_registry", "value": "https://evil.example"}]}, "decides what"),
        ({"environmentVariables": [{"name": "UV_INDEX_URL", "value": "https://evil.example"}]}, "decides what"),
        ({"environmentVariables": [{"name": "PATH", "value": "/tmp"}]}, "decides what"),
        ({"environmentVariables": [{"name": "LD_PRELOAD", "value": "/tmp/x"}]}, "decides what"),
        ({"environmentVariables": [{"name": "A=B", "value": "x"}]}, "decides what"),
        ({"environmentVariables": [{"name": "A", "value": "${env:AWS_SECRET_ACCESS_KEY}"}]}, "reads your variables"),
        ({"environmentVariables": [{"name": "A", "default": "${HOME}", "isRequired": True}]}, "reads your variables"),
        ({"packageArguments": [{"type": "positional", "value": "--send=${GITHUB_TOKEN}"}]}, "reads your variables"),
        ({"packageArguments": [{"type": "named", "name": "--a${X}", "value": "b"}]}, "reads your variables"),
        ({"packageArguments": [{"type": "positional", "value": "{a}", "variables": {"a": {"value": "${X}"}}}]}, "reads your"),
        ({"packageArguments": [{"value": "{a}{b}", "variables": {"a": {"value": "$"}, "b": {"value": "{X}"}}}]}, "reads your"),
        ({"packageArguments": [{"value": "{a}{X}", "variables": {"a": {"default": "$"}}}]}, "reads your"),
        ({"packageArguments": [{"value": "{a}{X}", "variables": {"a": {"choices": ["$"]}}}]}, "reads your"),
        ({"packageArguments": [{"type": "positional", "value": "a\x1b[2J"}]}, "control characters"),
        ({"packageArguments": [{"type": "named", "name": "--token", "isSecret": True}]}, "a secret as an argument"),
        ({"environmentVariables": [{"name": "A", "value": "x{s}", "variables": {"s": {"isSecret": True}}}]}, "joins a secret"),
    ],
    ids=lambda value: str(value)[:70],
)  # fmt: skip
def test_a_package_that_could_run_or_read_something_else_is_left_out(
    members: dict[str, Any], words: str
) -> None:
    assert words in refused(packages=[package(**members)]).message


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"url": "http://mcp.example.com/mcp"}, "is not encrypted"),
        ({"url": "https://localhost/mcp"}, "of this machine"),
        ({"url": "https://LOCALHOST./mcp"}, "of this machine"),
        ({"url": "https://127.0.0.1/mcp"}, "of this machine"),
        ({"url": "https://127.1/mcp"}, "in several ways"),
        ({"url": "https://0x7f.0.0.1/mcp"}, "in several ways"),
        ({"url": "https://2130706433/mcp"}, "of this machine"),
        ({"url": "https://[::1]/mcp"}, "of this machine"),
        ({"url": "https://[::ffff:10.0.0.1]/mcp"}, "of this machine"),
        ({"url": "https://169.254.169.254/latest"}, "of this machine"),
        ({"url": "https://192.168.1.1/mcp"}, "of this machine"),
        ({"url": "https://router.local/mcp"}, "of this machine"),
        ({"url": "https://intranet/mcp"}, "of this machine"),
        ({"url": "https://user:pass@x.example.com/mcp"}, "has a user name or password"),
        ({"url": "file:///etc/passwd"}, "is no http or https address"),
        ({"url": "https://x.example.com/${HOME}"}, "reads your variables"),
        ({"url": "https://x.example.com/\x1b[2J"}, "control characters"),
        ({"url": "https://x.example.com/{k}", "variables": {"k": {"isSecret": True}}}, "has a secret in it"),
        ({"type": "websocket"}, "which is not known here"),
        ({"headers": [{"name": "Host", "value": "x"}]}, "sets the header"),
        ({"headers": [{"name": "Mcp-Session-Id", "value": "x"}]}, "sets the header"),
        ({"headers": [{"name": "A\r\nB", "value": "x"}]}, "control characters"),
        ({"headers": [{"name": "A", "value": "${OPENAI_API_KEY}"}]}, "reads your variables"),
        ({"headers": [{"name": "A", "value": "x\r\nB: c"}]}, "control characters"),
    ],
    ids=lambda value: str(value)[:70],
)  # fmt: skip
def test_an_address_that_leads_here_or_takes_values_of_yours_is_left_out(
    members: dict[str, Any], words: str
) -> None:
    assert words in refused(remotes=[remote(**members)]).message
