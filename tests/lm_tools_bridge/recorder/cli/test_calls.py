"""`lmtb calls` and `lmtb record` with a real manager: list, follow, show, count, export, contents and purge."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from lm_tools_bridge.protocol import names, trace_context
from lm_tools_bridge.protocol import tasks_extension as tasks
from lm_tools_bridge.recorder.call_log import Call, CallLog, Filter
from lm_tools_bridge.recorder.cli.calls import calls
from lm_tools_bridge.recorder.cli.options import project_named, suggest_recorded
from lm_tools_bridge.recorder.cli.record import record
from lm_tools_bridge.recorder.cli.views import call_facts, call_line, call_row, call_table
from lm_tools_bridge.recorder.database import SCHEMA_VERSION, open_to_write
from lm_tools_bridge.recorder.server_output import output_during
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.text.quantities import seconds_of
from manager import exit_codes
from manager.routing.matching import workspace_id
from support.clients.stateless_requests import body_of, headers_of
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.projects.script_tools import write_tool
from support.recorded_calls import ended, recorder

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="needs unix sockets"), pytest.mark.processes]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    """A manager that has answered four calls in one project, one of them with an error."""
    folder = tmp_path_factory.mktemp("calls")
    project = folder / "shop"
    (project / ".git").mkdir(parents=True)
    with running_manager(folder / "user") as running:
        for expression in ("6*7", "1/0", "2+2"):
            running.lmtb("call", "calculator", json.dumps({"expression": expression}), cwd=project)
        running.lmtb("call", "datetime", cwd=project)
        yield running


def until(is_true: Any) -> None:
    end = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def of(manager: ManagerProcess, *arguments: str) -> dict[str, Any]:
    """The object that a verb prints."""
    done = manager.lmtb(*arguments, "--json")
    assert done.returncode == 0, done
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ok"] is True
    return found


def listed(manager: ManagerProcess, *options: str) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = of(manager, "calls", *options)["calls"]
    return calls


def test_the_last_calls_are_listed_oldest_first(manager: ManagerProcess) -> None:
    calls = listed(manager)[:4]
    assert [call["tool"] for call in calls] == ["calculator", "calculator", "calculator", "datetime"]
    assert [call["outcome"] for call in calls] == ["ok", "error", "ok", "ok"]
    assert {call["project"].rpartition("-")[0] for call in calls} == {"shop"}
    shown = manager.lmtb("calls").stdout.splitlines()
    assert shown[0].split()[:3] == ["ID", "TIME", "TOOL"]
    assert len(shown) == 5


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--errors",), 1),
        (("--tool", "calc*"), 3),
        (("--tool", "calc*", "--errors"), 1),
        (("--project", "shop"), 4),
        (("--project", "other"), 0),
        (("--client", "nobody"), 0),
        (("--since", "1h"), 4),
        (("--since", "2099-01-01"), 0),
        (("--slow", "3600000"), 0),
        (("--slow", "0"), 4),
        (("-n", "1"), 1),
    ],
)
def test_options_choose_among_calls(manager: ManagerProcess, options: tuple[str, ...], count: int) -> None:
    assert len(listed(manager, *options)) == count


def test_one_call_is_shown_with_all_that_is_known(manager: ManagerProcess) -> None:
    number = listed(manager, "--errors")[0]["id"]
    shown = of(manager, "calls", "show", str(number))
    assert shown["call"]["outcome"] == "error"
    assert shown["contents"] is None
    text = manager.lmtb("calls", "show", str(number)).stdout
    assert "bytes of arguments" in text
    assert "lmtb record on --contents" in text
    missing = manager.lmtb("calls", "show", "4711", "--json")
    assert missing.returncode == 1
    assert json.loads(missing.stdout)["error"]["reason"] == "no_such_call"


def test_figures_of_each_tool_are_counted(manager: ManagerProcess) -> None:
    calculator, datetime = of(manager, "calls", "stats")["tools"]
    assert (calculator["tool"], calculator["calls"], calculator["errors"]) == ("calculator", 3, 1)
    assert 0 < calculator["p50"] <= calculator["p99"]
    assert calculator["tokens"] == (calculator["sent"] + calculator["received"]) // 4
    assert datetime["tool"] == "datetime"
    assert manager.lmtb("calls", "stats").stdout.splitlines()[1].split()[0] == "calculator"


def test_calls_are_exported_one_a_line(manager: ManagerProcess, tmp_path: Path) -> None:
    lines = manager.lmtb("calls", "export", "--tool", "calculator").stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2, 3]
    file = tmp_path / "calls.jsonl"
    assert of(manager, "calls", "export", "-o", str(file))["exported"] == 4
    assert file.stat().st_mode & 0o077 == 0
    assert len(file.read_text().splitlines()) == 4


def test_following_prints_calls_as_they_end(manager: ManagerProcess) -> None:
    command = [sys.executable, "-I", "-m", "manager", "calls", "-f", "-n", "1", "--json"]
    with subprocess.Popen(command, env=manager.environ, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        try:
            assert json.loads(follower.stdout.readline())["tool"] == "datetime"
            project = manager.log.parent.parent / "shop"
            manager.lmtb("call", "lm_findFiles", '{"query": "*.none"}', cwd=project)
            assert json.loads(follower.stdout.readline())["tool"] == "lm_findFiles"
        finally:
            follower.kill()


def test_contents_are_recorded_while_wanted_and_purged(manager: ManagerProcess) -> None:
    project = manager.log.parent.parent / "shop"
    workspace = listed(manager, "-n", "1")[0]["project"]
    assert of(manager, "record", "status")["rules"] == []
    begun = of(manager, "record", "on", "--contents", "--project", workspace, "--for", "1h")
    assert begun["until"] > time.time() * 1000
    until(lambda: manager.status()["recorder"]["contents"])
    manager.lmtb("call", "calculator", '{"expression": "40+2"}', cwd=project)
    until(lambda: of(manager, "record", "status")["held"]["contents"] == 1)
    number = listed(manager, "-n", "1")[0]["id"]
    contents = of(manager, "calls", "show", str(number))["contents"]
    assert json.loads(contents["arguments"]) == {"expression": "40+2"}
    assert '"value":42' in contents["result"]
    assert "40+2" in manager.lmtb("calls", "show", str(number)).stdout
    assert of(manager, "record", "off")["stopped"] == 1
    until(lambda: not manager.status()["recorder"]["contents"])
    declined = manager.lmtb("record", "purge", "--json")
    assert json.loads(declined.stdout)["error"]["reason"] == "not_confirmed"
    assert of(manager, "record", "purge", "--yes") == {"ok": True, "calls": 0, "contents": 1}
    assert of(manager, "calls", "show", str(number))["contents"] is None
    assert b"40+2" not in b"".join(
        file.read_bytes() for file in (manager.log.parent / "state").glob("calls.sqlite3*")
    )


def test_contents_are_recorded_for_a_project_by_its_name_only_if_it_is_known(manager: ManagerProcess) -> None:
    begun = of(manager, "record", "on", "--contents", "--project", "shop")
    assert begun["project"].startswith("shop-")
    assert of(manager, "record", "off", "--project", "shop")["stopped"] == 1
    refused = manager.lmtb("record", "on", "--contents", "--project", "shpo")
    assert refused.returncode == 1
    assert "no project shpo is known" in refused.stdout + refused.stderr
    assert manager.lmtb("record", "on", "--contents", "--for", "0s").returncode == 2
    assert of(manager, "record", "status")["rules"] == []


@pytest.mark.always
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("shop", "shop-0123456789ab"),
        ("shop-0123456789ab", "shop-0123456789ab"),
        ("later-ba9876543210", "later-ba9876543210"),
        ("blog", "2 projects are named blog"),
        ("sho", "no project sho is known"),
    ],
)
def test_a_project_is_named_with_or_without_its_hash(name: str, found: str) -> None:
    known = ["shop-0123456789ab", "blog-0123456789ab", "blog-ba9876543210"]
    try:
        assert project_named(name, known) == found
    except Failure as refused:
        assert refused.message == found


@pytest.mark.always
@pytest.mark.parametrize("word", ["{}", "{}/deep", "."])
def test_a_project_is_named_by_a_folder_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    for name in ("CONFIG", "STATE", "RUNTIME"):  # no manager runs there
        monkeypatch.setenv(f"LMTB_{name}_DIR", str(tmp_path / name))
    (tmp_path / "p" / ".git").mkdir(parents=True)
    (tmp_path / "p" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "p" / "deep")
    root = str(tmp_path / "p")
    assert project_named(word.format(root), []) == workspace_id(root)


@pytest.mark.always
@pytest.mark.parametrize(
    "words",
    [
        ("show", "9" * 20),
        ("show", "one"),
        ("show", "0"),
        ("--slow", "nan"),
        ("--slow", "1e300"),
        ("--since", "never"),
    ],
)
def test_what_is_no_id_duration_or_time_is_refused_in_words(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(calls, words)
    assert done.exit_code == 2
    assert f"'{words[1]}' is n" in done.output


@pytest.mark.always
def test_an_error_of_the_database_comes_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTB_STATE_DIR", str(tmp_path))
    file = tmp_path / "calls.sqlite3"
    file.write_bytes(b"no database" * 500)
    assert "move it away" in CliRunner().invoke(calls, []).output
    file.unlink()
    with closing(open_to_write(file)) as database:
        database.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    for verb, words in ((calls, ["stats"]), (record, ["off"])):
        assert "use the newer version, or move the file away" in CliRunner().invoke(verb, words).output


@pytest.mark.always
def test_where_calls_are_not_recorded_the_verbs_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTB_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LMTB_RECORD_CALLS", "false")
    for words in ([], ["stats"]):
        assert "no calls yet: the setting record_calls is off" in CliRunner().invoke(calls, words).output
    refused = CliRunner().invoke(record, ["on", "--contents"])
    assert refused.exit_code == 1
    assert "nothing would be recorded" in refused.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.always
def test_a_configuration_that_cannot_be_used_is_told_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTB_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("LMTB_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text('record_calls = "maybe"\n')
    for verb, words in ((calls, []), (calls, ["stats"]), (record, ["on", "--contents"])):
        done = CliRunner().invoke(verb, words)
        assert done.exit_code == exit_codes.HOPELESS
        assert "config.toml, line 1" in done.output
        assert "correct it" in done.output


def test_without_records_the_verbs_say_so(tmp_path: Path) -> None:
    from support.processes.managers.manager_process import environment, lmtb

    environ = environment(tmp_path)
    assert "no calls yet" in lmtb(environ, "calls").stdout
    assert json.loads(lmtb(environ, "calls", "--json").stdout) == {"ok": True, "calls": []}
    assert json.loads(lmtb(environ, "record", "status", "--json").stdout)["held"] is None
    assert lmtb(environ, "calls", "show", "1").returncode == 1
    assert "no calls yet" in lmtb(environ, "calls", "stats").stdout
    assert lmtb(environ, "calls", "export").stdout == ""
    assert lmtb(environ, "calls", "--since", "never").returncode == 2


@pytest.mark.always
@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("30s", 30), ("5m", 300), ("2h", 7200), ("1.5d", 129_600), ("", None), ("2w", None)],
)
def test_lengths_of_time(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def call_at(at: int, took: int, tool: str = "git__log", source: str | None = None) -> Call:
    return Call(
        id=1, at=at, client="a", client_version=None, era="modern", revision="r", session=None, project="shop-1",
        decided_by="query", method="tools/call", tool=tool, source=source, outcome="ok", code=None, sent=1,
        received=1, took=took, manager=None, server=None, source_took=None, queue=None, start=None, asked=None, approval=None,
        retries=0, more=0, trace=None,
    )  # fmt: skip


def test_the_servers_log_is_joined_by_time_and_marked(tmp_path: Path) -> None:
    lines = [
        '{"timestamp":"2026-05-01T10:00:00.000000Z","event":"before"}',
        "a traceback of before",
        '{"timestamp":"2026-05-01T10:00:01.100000Z","event":"stderr","source":"stdio:git","text":"fatal"}',
        "a line without a time",
        '{"timestamp":"2026-05-01T10:00:01.200000Z","event":"own"}',
        '{"timestamp":"2026-05-01T10:00:09.000000Z","event":"after"}',
        "after",
    ]
    (tmp_path / "shop-1.log").write_text("\n".join(lines))
    found = output_during(tmp_path, call_at(1_777_629_601_000, 500_000))
    assert [line.text for line in found] == lines[2:5]
    assert [line.is_of_call for line in found] == [True, False, False]
    assert output_during(tmp_path / "nowhere", call_at(1_777_629_601_000, 500_000)) == []


@pytest.mark.always
def test_hostile_names_are_harmless_and_tables_fit() -> None:
    call = call_at(1_777_629_601_000, 500_000, tool="\x1b[31mred\n" + "x" * 300)
    from lm_tools_bridge.terminal.lines import plain

    assert "\x1b" not in plain(call_table([call], 1_777_629_602_000))
    assert "\x1b" not in plain(call_line(call, 1_777_629_602_000))


def test_calls_that_were_only_counted_are_told() -> None:
    call = msgspec.structs.replace(call_at(1_777_629_601_000, 500_000), more=1_234)
    told = "ok (and 1,234 more like it)"
    assert call_row(call, 0)[-1] == told
    assert call_line(call, 0).endswith(told)
    facts = {fact.label: fact.text for fact in call_facts(call).facts}
    assert facts["others"].startswith("1,234 more calls like it")


def test_names_are_completed_from_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = recorder(tmp_path)
    one.observe_call(ended("alpha"))
    one.observe_call(ended("beta"))
    one.flush()
    one.close()
    monkeypatch.setenv("LMTB_STATE_DIR", str(tmp_path / "state"))
    found = suggest_recorded("tool")(None, None, "al")
    assert [item.value for item in found] == ["alpha"]


def test_calls_become_spans_of_their_clients_trace(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from lm_tools_bridge.recorder.cli.otlp import span_of

    one = recorder(tmp_path)
    one.observe_call(ended(outcome="error", trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
    one.observe_call(ended())
    one.flush()
    one.close()
    with CallLog.open(tmp_path / "state" / "calls.sqlite3") as log:
        traced, own = list(log.in_order(Filter()))
    span = span_of(traced)
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.status.is_ok is False
    assert span.end_time - span.start_time == 20_000_000
    assert span.attributes["gen_ai.tool.name"] == "search"
    assert span_of(own).parent is None
    assert span_of(own).context == span_of(own).context
    made = span_of(msgspec.structs.replace(own, trace=trace_context.make_traceparent(7).decode()))
    assert made.parent is None  # the server behind it got the span of the call as its parent
    assert f"{made.context.span_id:016x}" == f"{7:016x}"


def test_spans_reach_a_collector_and_a_refusal_is_told(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread

    from lm_tools_bridge.recorder.cli import otlp

    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200 if self.path == "/v1/traces" else 400)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        calls = [call_at(1_777_629_601_000, 500_000)] * 3
        assert otlp.send(calls, f"{address}/v1/traces") == 3
        assert b"git__log" in received[0]
        with pytest.raises(Exception, match="does not take"):
            otlp.send(calls, f"{address}/elsewhere")
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.always
def test_the_verbs_show_their_options() -> None:
    from manager.cli.verbs import cli

    for words in (["calls"], ["calls", "show"], ["calls", "export"], ["record", "on"], ["replay"]):
        assert CliRunner().invoke(cli, [*words, "--help"]).exit_code == 0


WAITS = """
import os, time
import lmtb_tool
file = lmtb_tool.get_string("file")
while not os.path.exists(file):
    time.sleep(0.01)
lmtb_tool.return_object({"done": True})
"""
FILE = 'task = true\n[parameters.file]\ntype = "string"\ndescription = "What to wait for"\n'
KNOWS_TASKS = {names.META_CAPABILITIES: {"extensions": {tasks.EXTENSION: {}}}}


def test_a_task_is_recorded_when_it_begins_and_with_its_whole_time_when_it_ends(tmp_path: Path) -> None:
    project, file = tmp_path / "shop", tmp_path / "go"
    (project / ".git").mkdir(parents=True)
    with running_manager(tmp_path / "user") as manager:
        write_tool(Path(manager.environ["LMTB_CONFIG_DIR"]) / "tools", "build", WAITS, FILE)
        call = {"name": "build", "arguments": {"file": str(file)}}
        body = body_of(names.TOOLS_CALL, call, 1, **KNOWS_TASKS)
        sent = {**headers_of(body, None), "Content-Type": "application/json"}
        sent["Accept"] = "application/json, text/event-stream"
        url = f"{manager.address}?cwd={project}"
        asked = urllib.request.Request(url, json.dumps(body).encode(), sent)
        with urllib.request.urlopen(asked, timeout=30) as response:
            assert b'"taskId"' in response.read()
        answered = time.monotonic()
        (begun,) = listed(manager)
        assert (begun["tool"], begun["outcome"], begun["code"]) == ("build", "task", None)
        assert of(manager, "calls", "stats")["tools"] == []
        released = time.monotonic()
        file.touch()
        until(lambda: len(listed(manager)) == 2)
        done = next(one for one in listed(manager) if one["id"] != begun["id"])
        assert (done["tool"], done["outcome"]) == ("build", "ok")
        assert done["took"] / 1e6 >= released - answered
        for member in ("client", "clientVersion", "era", "revision", "project", "method", "source", "sent"):
            assert done[member] == begun[member]
        assert abs(done["at"] - begun["at"]) < 20_000
        (figures,) = of(manager, "calls", "stats")["tools"]
        assert (figures["calls"], figures["errors"], figures["p50"]) == (1, 0, done["took"])
        assert listed(manager, "--errors") == []
