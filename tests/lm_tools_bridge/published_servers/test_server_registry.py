"""Tests of asking a registry: paths, other servers than asked for, redirects, sizes, and plain connections."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lm_tools_bridge.published_servers.server_document import MAX_BYTES, ServerDocument
from lm_tools_bridge.published_servers.server_names import Refusal, RegistryName, SearchWord
from lm_tools_bridge.published_servers.server_registry import ServerRegistry, registry_problem

NAME = "io.example/weather"
LATEST = "/v0.1/servers/io.example%2Fweather/versions/latest"


class LocalRegistry(ThreadingHTTPServer):
    """Answers paths from a table of status, headers and body; keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def say(self, path: str, value: object, status: int = 200, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.answers[path] = (status, headers, body)


class _Handler(BaseHTTPRequestHandler):
    server: LocalRegistry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        status, headers, body = self.server.answers.get(self.path, (404, {}, b"{}"))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the output of tests clean."""


@pytest.fixture
def local() -> Iterator[LocalRegistry]:
    registry = LocalRegistry()
    thread = threading.Thread(target=registry.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield registry
    registry.shutdown()
    registry.server_close()
    thread.join(5)


def refused(registry: ServerRegistry, name: RegistryName | None = None) -> Refusal:
    answer = registry.server(name or RegistryName(NAME))
    assert isinstance(answer, Refusal)
    assert (answer.message + answer.next_step).isprintable()
    return answer


def test_a_server_is_asked_for_by_its_quoted_name_and_version(local: LocalRegistry) -> None:
    local.say(LATEST, {"server": {"name": NAME, "version": "1.0.0"}})
    local.say(
        "/v0.1/servers/io.example%2Fweather/versions/2.0.0%2Bx",
        {"server": {"name": NAME, "version": "2.0.0+x"}},
    )
    registry = ServerRegistry(local.address + "/")
    newest, exact = registry.server(RegistryName(NAME)), registry.server(RegistryName(NAME, "2.0.0+x"))
    assert isinstance(newest, ServerDocument)
    assert isinstance(exact, ServerDocument)
    assert (newest.version, exact.version) == ("1.0.0", "2.0.0+x")


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ({"name": "io.evil/weather", "version": "1.0.0"}, RegistryName(NAME)),
        ({"name": "io.example/Weather"}, RegistryName(NAME)),
        ({"name": "io.example/weather\u202e"}, RegistryName(NAME)),
    ],
)
def test_another_server_than_asked_for_is_refused(
    local: LocalRegistry, server: dict[str, str], name: RegistryName
) -> None:
    local.say(LATEST, {"server": server})
    assert refused(ServerRegistry(local.address), name).reason == "other_server"


def test_another_version_than_asked_for_is_refused_and_so_is_one_that_was_taken_out(
    local: LocalRegistry,
) -> None:
    local.say(
        "/v0.1/servers/io.example%2Fweather/versions/1.0.0", {"server": {"name": NAME, "version": "1.0.1"}}
    )
    meta = {"io.modelcontextprotocol.registry/official": {"status": "deleted"}}
    local.say(LATEST, {"server": {"name": NAME, "version": "1.0.0"}, "_meta": meta})
    registry = ServerRegistry(local.address)
    assert refused(registry, RegistryName(NAME, "1.0.0")).reason == "other_server"
    assert "was taken out" in refused(registry).message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed_not_even_to_this_machine(local: LocalRegistry, status: int) -> None:
    local.say("/secret", {"server": {"name": NAME}})
    local.say(LATEST, b"", status, Location=f"{local.address}/secret")
    assert "which is not followed" in refused(ServerRegistry(local.address)).message
    assert local.asked == [LATEST]


@pytest.mark.parametrize("status", [404, 429, 500])
def test_a_failure_says_the_status_or_that_there_is_no_such_server(local: LocalRegistry, status: int) -> None:
    local.say(LATEST, b"x\x1b[2J", status)
    refusal = refused(ServerRegistry(local.address))
    assert refusal.reason == ("unknown_server" if status == 404 else "registry_unusable")


def test_an_answer_that_is_too_large_or_no_json_is_refused(local: LocalRegistry) -> None:
    local.say(LATEST, b" " * (MAX_BYTES + 1))
    assert "answers more than 1 MiB" in refused(ServerRegistry(local.address)).message
    local.say(LATEST, b"<html>")
    assert refused(ServerRegistry(local.address)).reason == "bad_description"


def test_an_answer_in_drops_ends_at_a_deadline(local: LocalRegistry) -> None:
    local.say(LATEST, b" " * 300_000)
    times = iter([0.0, 1.0, 31.0])
    assert "did not answer within 30 s" in refused(ServerRegistry(local.address, lambda: next(times))).message


def test_a_registry_that_is_away_is_told() -> None:
    assert refused(ServerRegistry("http://127.0.0.1:9")).reason == "registry_unusable"


@pytest.mark.parametrize(
    "address",
    [
        "http://registry.example",
        "ftp://x.example",
        "file:///etc",
        "https://u:p@x.example",
        "x",
        "http://127.1",
    ],
)
def test_a_registry_that_others_on_the_way_could_change_is_not_asked(address: str) -> None:
    assert registry_problem(address) is not None
    assert refused(ServerRegistry(address)).reason == "bad_registry"


def test_a_search_names_servers_and_chooses_none(local: LocalRegistry) -> None:
    rows = [{"server": {"name": f"io.example/w{number}"}} for number in range(40)]
    local.say("/v0.1/servers?search=w+x&version=latest&limit=30", {"servers": rows})
    documents = ServerRegistry(local.address).search(SearchWord("w x"))
    assert isinstance(documents, list)
    assert [document.name for document in documents] == [f"io.example/w{number}" for number in range(30)]
