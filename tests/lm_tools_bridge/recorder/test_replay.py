"""A recorded session is replayed against a changed server, and exactly the changes are shown."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.processes.managers.manager_process import ManagerProcess, running_manager

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="needs unix sockets"), pytest.mark.processes]
PROGRAM = Path(__file__).parents[2] / "support" / "servers" / "sdk_servers" / "forecast_server.py"
CALLS = (
    ("cities", {}),
    ("forecast", {"city": "Oslo"}),
    ("forecast", {"city": "Rome"}),
    ("report", {"city": "Rome"}),
)


@dataclass
class Session:
    """A manager that recorded a session with its contents, and the exported file."""

    manager: ManagerProcess
    project: Path
    file: Path

    def replay(self, *arguments: str) -> tuple[int, dict[str, Any]]:
        done = self.manager.lmtb("replay", *arguments, "--json")
        return done.returncode, json.loads(done.stdout)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("replay")
    project = folder / "shop"
    (project / ".git").mkdir(parents=True)
    user = folder / "user"
    (user / "config").mkdir(parents=True, mode=0o700)
    (user / "config" / "workspace.toml").write_text(
        "".join(
            f'[[mcp.stdio_servers]]\nnamespace = "{name}"\n'
            f"command = {json.dumps([sys.executable, '-I', str(PROGRAM), '--stdio', *more])}\n"
            for name, more in (("weather", []), ("later", ["--changed"]))
        )
    )
    with running_manager(user) as manager:
        first = manager.lmtb("call", "weather__cities", cwd=project)  # starts everything
        assert first.returncode == 0, first
        manager.lmtb("record", "on", "--contents")
        until(lambda: manager.status()["recorder"]["contents"])
        for tool, arguments in CALLS:
            done = manager.lmtb("call", f"weather__{tool}", json.dumps(arguments), cwd=project)
            assert done.returncode == 0, done
        until(lambda: json.loads(manager.lmtb("record", "status", "--json").stdout)["held"]["contents"] == 4)
        manager.lmtb("record", "off")
        until(lambda: not manager.status()["recorder"]["contents"])
        file = folder / "session.jsonl"
        manager.lmtb("calls", "export", "--contents", "--tool", "weather__*", "-o", str(file))
        lines = file.read_text().splitlines()[1:]  # the first had no contents yet
        file.write_text("\n".join(lines) + "\n")
        yield Session(manager, project, file)


@pytest.fixture(scope="module")
def changed() -> Iterator[str]:
    """The address of the later version of the server."""
    command = [sys.executable, "-I", str(PROGRAM), "--http", "--changed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}/mcp"
        server.kill()


def until(is_true: Any) -> None:
    end = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_nothing_is_sent_unless_asked_for(session: Session) -> None:
    before = session.manager.status()["recorder"]["written"]
    code, told = session.replay("2", "3")
    assert (code, told["dryRun"]) == (0, True)
    assert [call["tool"] for call in told["calls"]] == ["weather__cities", "weather__forecast"]
    assert told["calls"][1]["arguments"] == {"city": "Oslo"}
    time.sleep(0.6)  # as long as a record takes to be written
    assert session.manager.status()["recorder"]["written"] == before


def test_a_file_is_shown_with_its_arguments_and_not_sent_unless_asked_for(session: Session) -> None:
    before = len(recorded(session))
    code, told = session.replay("--assert", str(session.file), "--yes")
    assert (code, told["dryRun"]) == (1, True), "a test that forgot --send must not pass"
    assert {"city": "Oslo"} in [call["arguments"] for call in told["calls"]]
    assert session.replay("--assert", str(session.file), "--dry-run")[0] == 0
    assert len(recorded(session)) == before


def test_every_call_is_shown_before_a_question(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "hostile.jsonl"
    lines = [json.loads(line) for line in session.file.read_text().splitlines()]
    writing = next(line for line in lines if line["tool"] == "weather__report")
    calls = [
        {
            **writing,
            "contents": {**writing["contents"], "arguments": json.dumps({"city": f"rm -rf {n}\x1b[2J"})},
        }
        for n in range(3)
    ]
    file.write_text("".join(json.dumps(call) + "\n" for call in calls))
    done = session.manager.lmtb("replay", "--assert", str(file), "--send")
    assert done.returncode == 1
    assert [f"rm -rf {n}" in done.stdout for n in range(3)] == [True] * 3
    assert "\x1b" not in done.stdout


def test_the_same_server_gives_the_same_results(session: Session) -> None:
    code, told = session.replay("--assert", str(session.file), "--send", "--yes")
    assert (code, told["counts"]) == (0, {"same": 4}), told


def test_a_changed_server_shows_exactly_the_changes(session: Session, changed: str) -> None:
    code, told = session.replay("--assert", str(session.file), "--send", "--to", changed, "--yes")
    assert code == 1
    cities, oslo, rome, report = told["calls"]
    assert (cities["outcome"], report["outcome"]) == ("same", "same")
    assert places(oslo) == {"/structuredContent/rain": "removed", "/structuredContent/wind": "added"}
    assert places(rome) == {**places(oslo), "/structuredContent/degrees": "changed"}
    shown = session.manager.lmtb(
        "replay", "--assert", str(session.file), "--send", "--to", changed, "--yes"
    ).stdout
    assert "/structuredContent/degrees: 20 → 21" in shown
    assert "2 of 4 results are the same as recorded" in shown


def test_another_server_of_the_project_is_compared(session: Session) -> None:
    code, told = session.replay("--assert", str(session.file), "--send", "--server", "later", "--yes")
    assert (code, told["counts"]) == (1, {"same": 2, "different": 2}), told
    assert [call["tool"] for call in told["calls"]][1:3] == ["later__forecast"] * 2
    assert places(told["calls"][1]) == {
        "/structuredContent/rain": "removed",
        "/structuredContent/wind": "added",
    }
    code, told = session.replay("--assert", str(session.file), "--send", "--server", "nobody", "--yes")
    assert (code, told["error"]["reason"]) == (1, "unknown_server")
    assert (
        session.manager.lmtb("replay", "3", "--server", "a", "--to", "http://127.0.0.1:9/mcp").returncode == 2
    )


def test_recorded_calls_name_their_source(session: Session) -> None:
    found = json.loads(session.manager.lmtb("calls", "--tool", "weather__forecast", "--json").stdout)["calls"]
    assert {call["source"] for call in found} == {"stdio:weather"}


def places(call: dict[str, Any]) -> dict[str, str]:
    """Of structured results: texts say the same again."""
    found = {one["pointer"]: one["kind"] for one in call["differences"]}
    return {place: kind for place, kind in found.items() if place.startswith("/structured")}


def test_ignored_places_do_not_fail_the_test(session: Session, changed: str) -> None:
    ignored = [
        f"--ignore={place}{member}"
        for place in ("/structuredContent/", "/content/0/text/")
        for member in ("rain", "wind", "degrees")
    ]
    code, told = session.replay("--assert", str(session.file), "--send", "--to", changed, "--yes", *ignored)
    assert (code, told["counts"]) == (0, {"same": 4}), told


def test_tools_that_may_change_something_need_consent(session: Session) -> None:
    before = len(recorded(session))
    done = session.manager.lmtb("replay", "3", "5", "--send", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["reason"] == "not_confirmed"
    code, told = session.replay("3", "--send")  # this one only reads
    assert (code, told["counts"]) == (0, {"same": 1})
    until(lambda: len(recorded(session)) > before)
    assert len(recorded(session)) == before + 1, "nothing was sent before the question"


def recorded(session: Session) -> list[Any]:
    """All calls of the tool that only reads."""
    found = session.manager.lmtb("calls", "--tool", "weather__forecast", "-n", "1000", "--json")
    calls: list[Any] = json.loads(found.stdout)["calls"]
    return calls


def test_a_tool_that_the_server_no_longer_has_fails_the_test(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text(session.file.read_text().replace("weather__cities", "weather__towns"))
    code, told = session.replay("--assert", str(file), "--send", "--yes")
    assert (code, told["counts"]) == (1, {"failed": 1, "same": 3})
    assert told["calls"][0]["why"] == "the server has no such tool"


def test_calls_without_contents_are_skipped_with_the_next_step(session: Session) -> None:
    code, told = session.replay("1", "--send")
    assert (code, told["calls"][0]["outcome"]) == (0, "skipped")
    assert "lmtb record on --contents" in session.manager.lmtb("replay", "1").stdout


def test_an_address_where_nobody_listens_is_a_failure(session: Session) -> None:
    code, told = session.replay("3", "--send", "--to", "http://127.0.0.1:9/mcp")
    assert (code, told["error"]["reason"]) == (1, "unreachable")


def test_a_file_of_something_else_is_refused(session: Session, tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text('{"a": 1}\n')
    code, told = session.replay("--assert", str(file))
    assert (code, told["error"]["reason"]) == (1, "unusable_file")
    assert session.manager.lmtb("replay").returncode == 2
    assert session.manager.lmtb("replay", "1", "--to", "ftp://x").returncode == 2
