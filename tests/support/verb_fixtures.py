"""A control socket that serves canned answers, and the user whose folders it lies in."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lm_tools_bridge.machine.private_files import make_private
from manager import __version__
from manager.cli.verbs import cli
from manager.configuration.paths import Paths
from support.processes.installations.fake_systemd import Systemd
from support.processes.managers.manager_process import environment


class FakeControl:
    """Answers requests on a unix socket from a table of bodies by `METHOD /path`; keeps what it was asked."""

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, tuple[int, Any] | bytes] = {}
        self.asked: list[tuple[str, Any]] = []
        self._path = path
        path.unlink(missing_ok=True)  # of a killed run: for a long path, it is in a shared folder
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def say(self, request: str, body: Any, status: int = 200) -> None:
        """What to answer to e.g. `GET /status`; bytes are sent as they are."""
        self.answers[request] = body if isinstance(body, bytes) else (status, body)

    def close(self) -> None:
        """Stop listening, wait for the end of the thread, and remove what lies outside the test's folder."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        self._path.unlink(missing_ok=True)
        if self._path.parent.parent == Path("/tmp"):  # see `Paths.control_socket`
            self._path.parent.rmdir()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file:
                self._answer(connection, file)

    def _answer(self, connection: socket.socket, file: Any) -> None:
        method, target, _ = file.readline().decode().split()
        length = 0
        while (line := file.readline().strip()) != b"":
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        body = file.read(length)
        self.asked.append((f"{method} {target}", json.loads(body) if body else None))
        answer = self.answers.get(f"{method} {target}", (404, {"ok": False, "reason": "not_found"}))
        if isinstance(answer, tuple):
            status, value = answer
            answer = (
                f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n\r\n{json.dumps(value)}".encode()
            )
        connection.sendall(answer)


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A user's environment in which no manager runs; in force for this process, too."""
    made = environment(tmp_path)
    for name, value in made.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def paths(environ: dict[str, str]) -> Paths:
    return Paths.of_user(environ)


@pytest.fixture
def serve_control() -> Iterator[Callable[[Paths, dict[str, Any]], FakeControl]]:
    """Serves a control socket in these folders whose `/status` has these members."""
    made: list[FakeControl] = []

    def serve(paths: Paths, status: dict[str, Any]) -> FakeControl:
        make_private(paths.control_socket.parent)
        fake = FakeControl(paths.control_socket)
        fake.say("GET /status", {"ok": True, **status})
        made.append(fake)
        return fake

    yield serve
    for fake in made:
        fake.close()


@pytest.fixture
def control(paths: Paths) -> Iterator[FakeControl]:
    """A manager's control socket with canned answers."""
    make_private(paths.control_socket.parent)
    fake = FakeControl(paths.control_socket)
    fake.say(
        "GET /status", {"ok": True, "version": __version__, "pid": 1, "address": "http://127.0.0.1:9/mcp"}
    )
    yield fake
    fake.close()


@pytest.fixture
def run(environ: dict[str, str]) -> Any:
    """Runs a verb in this process: `run("status", "--json")`."""

    def call(*arguments: str, **options: Any) -> Result:
        result = CliRunner().invoke(cli, list(arguments), **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def port() -> int:
    """A port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


@pytest.fixture
def systemd(tmp_path: Path, environ: dict[str, str], port: int, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    """A user whose `systemctl` is a fake, and who has no variables of ours."""
    (tmp_path / "bin").mkdir()
    made = Systemd(tmp_path / "bin", Path(environ["HOME"]))
    config = made.home / ".config" / "lm-tools-bridge"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f"http_port = {port}\n")
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in environ:
        if name.startswith("LMTB_"):
            monkeypatch.delenv(name)
    return made
