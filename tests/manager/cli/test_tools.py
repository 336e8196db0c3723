"""Tests of the verb tools against canned answers: what a person sees, and what the next step is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manager import exit_codes
from manager.cli.output.workspace_options import MAX_ISSUES
from manager.status_reading import first_sentence

CUSTOM = {"id": "custom", "label": "Custom tools"}


def tool(name: str, source: str = "builtin", **members: Any) -> dict[str, Any]:
    return {
        "name": name,
        "source": source,
        "kind": source.partition(":")[0],
        "group": CUSTOM,
        "visibility": "native",
        "visibilityOrigin": "source",
        "listed": True,
        "state": "callable",
        "tokens": 100,
        "description": f"Does {name}. And more.",
        **members,
    }


def pending(message: str) -> dict[str, Any]:
    return {
        "level": "warning",
        "category": "trust",
        "code": "TRUST_PENDING",
        "message": message,
        "details": "lmtb trust /srv/p",
    }


def issue(level: str, message: str, **members: Any) -> dict[str, Any]:
    return {"level": level, "category": "source", "code": "SOURCE_UNAVAILABLE", "message": message, **members}


INSPECTED: dict[str, Any] = {
    "ok": True,
    "sources": [{"id": "builtin"}, {"id": "script"}, {"id": "stdio:gh"}],
    "tools": [
        tool("gh__list", "stdio:gh", visibility="always"),
        tool("greet", "script", listed=False, visibility="ondemand"),
        tool("off", "stdio:gh", listed=False, state="hidden", reason="disabled: it is in disabledDelta"),
        tool("read\x1b", tokens=50),
        {
            "name": "wait",
            "listed": False,
            "state": "pending",
            "reason": "waits for trust: lmtb trust /srv/p",
            "group": CUSTOM,
        },
    ],
    "issues": [
        issue("warning", "slow", toolName="gh__list"),
        issue("error", "down\x1b", details="source stdio:x"),
        pending("the tool wait"),
        issue("error", "down\x1b", details="source stdio:x"),
        pending("the server gh"),
        {**pending("the tool wait"), "toolName": "wait"},
    ],
}


@pytest.fixture
def inspected(control: Any) -> Any:
    control.say("POST /inspect", INSPECTED)
    return control


def columns(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let the output be a terminal of this width."""
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    size = os.terminal_size((count, 24))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback=size: size)


@pytest.mark.usefixtures("inspected")
def test_what_can_be_called_is_listed_by_source_with_its_cost(run: Any) -> None:
    lines = run("tools").stdout.splitlines()
    assert lines == [
        "TOOL      SOURCE    STATE          TOKENS  DESCRIPTION",
        "read\\x1b  builtin   listed             50  Does read\\x1b",
        "greet     script    on demand         100  Does greet",
        "gh__list  stdio:gh  always listed     100  Does gh__list",
        "",
        "2 tools listed, about 150 tokens in a model's context; 1 more on demand;"
        " 2 cannot be called, see: lmtb tools --all",
    ]


@pytest.mark.usefixtures("inspected")
def test_issues_are_printed_once_errors_first_and_pending_trust_last(run: Any) -> None:
    assert run("tools").stderr.splitlines() == [
        "error: down\\x1b (source stdio:x)",
        "warning: slow",
        "",
        "Waiting for your trust (2):",
        "  the tool wait",
        "  the server gh",
        "review and allow with: lmtb trust /srv/p",
    ]


@pytest.mark.usefixtures("inspected")
def test_all_shows_hidden_tools_with_the_reason(run: Any) -> None:
    shown = run("tools", "--all").stdout
    assert [line.split(maxsplit=2) for line in shown.splitlines() if line.startswith(("off", "wait"))] == [
        ["off", "stdio:gh", "disabled: it is in disabledDelta"],
        ["wait", "-", "waits for trust: lmtb trust /srv/p"],
    ]
    assert "--all" not in shown


def test_groups_are_headed_only_where_there_are_several(run: Any, control: Any) -> None:
    rule = {"id": "custom_rule:deploy", "label": "Deploy"}
    rows = [tool("a"), tool("z", group=rule), tool("b", group={"id": "other", "label": "Other tools"})]
    control.say("POST /inspect", {"ok": True, "tools": rows})
    lines = [line.split("  ")[0] for line in run("tools").stdout.splitlines()]
    assert lines[1:-2] == ["", "Deploy", "z", "", "Custom tools", "a", "", "Other tools", "b"]


def test_a_tool_that_its_source_leaves_out_of_lists_is_not_called_on_demand(run: Any, control: Any) -> None:
    rows = [tool("a"), tool("b", listed=False, unlisted="nothing to do")]
    control.say("POST /inspect", {"ok": True, "tools": rows})
    lines = run("tools").stdout.splitlines()
    assert "unlisted" in lines[2]
    assert lines[-1].endswith("; 1 more can be called without being listed, see: lmtb tools why NAME")
    assert run("tools", "why", "b").stdout == (
        "b of builtin can be called, but is not listed: nothing to do;"
        " list it with: lmtb tools visibility b native\n"
    )


def test_what_the_user_chose_is_marked_and_explained(run: Any, control: Any) -> None:
    rows = [
        tool("a", visibility="always", visibilityOrigin="yours"),
        tool("b", visibility="ondemand", listed=False, visibilityOrigin="yours_for_source"),
    ]
    control.say("POST /inspect", {"ok": True, "tools": rows})
    lines = run("tools").stdout.splitlines()
    assert "always listed (yours)" in lines[1]
    assert "on demand (yours, for its source)" in lines[2]
    assert "(you chose always for it)" in run("tools", "why", "a").stdout
    assert "(you chose ondemand for all tools of builtin)" in run("tools", "why", "b").stdout


@pytest.mark.usefixtures("inspected")
@pytest.mark.parametrize(("width", "has_description"), [(200, True), (60, True), (30, False)])
def test_a_narrow_terminal_gets_no_line_that_is_too_long(
    run: Any, monkeypatch: pytest.MonkeyPatch, width: int, has_description: bool
) -> None:
    columns(monkeypatch, width)
    lines = run("tools").stdout.splitlines()[:4]
    assert max(map(len, lines)) <= width
    assert ("DESCRI" in lines[0]) is has_description
    assert lines[2].startswith("greet "), "a name that is cut cannot be used"


def test_many_issues_are_cut_and_say_where_all_are(run: Any, control: Any) -> None:
    control.say("POST /inspect", {"ok": True, "issues": [issue("error", f"e{n}") for n in range(100)]})
    lines = run("tools").stderr.splitlines()
    assert lines[-1] == f"… and {100 - MAX_ISSUES} more; all of them with --json"
    assert len(lines) == MAX_ISSUES + 1


@pytest.mark.usefixtures("inspected")
def test_json_has_everything(run: Any) -> None:
    found = json.loads(run("tools", "--json").stdout)
    first = found.pop("firstRequests")
    assert found == INSPECTED
    assert [row["client"] for row in first] == ["Claude Code", "Codex", "Qwen Code"]


@pytest.mark.usefixtures("inspected")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("read\x1b", "read\\x1b is listed and can be called; it comes from builtin (builtin says native)"),
        (
            "greet",
            "greet of script can be called, but is not listed: it is on demand, tool_search finds it"
            " (script says ondemand)",
        ),
        ("wait", "wait cannot be called: waits for trust: lmtb trust /srv/p"),
        (
            "off",
            "off cannot be called: disabled: it is in disabledDelta; enable it with: lmtb tools enable off",
        ),
        (
            "gh__list",
            "gh__list is listed and can be called; it comes from stdio:gh (stdio:gh says always)\nslow",
        ),
    ],
)
def test_why_names_the_reason_once(run: Any, name: str, said: str) -> None:
    assert run("tools", "why", name).stdout == f"{said}\n"


def test_why_names_the_decision_that_keeps_a_tool_from_running(run: Any, control: Any) -> None:
    reason = "not exposed: its source is off by default"
    rows = [
        tool("denied", approval="deny"),
        {"name": "off", "listed": False, "state": "hidden", "reason": reason},
    ]
    control.say("POST /inspect", {"ok": True, "tools": rows})
    assert run("tools", "why", "denied").stdout == (
        "denied of builtin is denied, so that every call is refused; allow it with: lmtb tools allow denied\n"
    )
    said = f"off cannot be called: {reason}; expose it with: lmtb tools expose off\n"
    assert run("tools", "why", "off").stdout == said


@pytest.mark.parametrize(
    ("source", "issues", "said"),
    [
        ({"state": "ready"}, [issue("error", "bad schema", toolName="gh__x")], "bad schema"),
        ({"state": "pending_trust"}, [], "gh__x is not known, because \"stdio:gh\" waits for your trust"),
        ({"state": "disabled"}, [], "set enabled = true in its entry"),
        ({"state": "failed", "error": "no such file"}, [], '"stdio:gh" cannot be started or reached: no such file'),
        (
            {"state": "ready"},
            [{**issue("warning", "more than 2,000 tools", details="source stdio:gh"), "code": "TOOL_LIST_TRUNCATED"}],
            "the list of stdio:gh was cut: more than 2,000 tools",
        ),
        ({"state": "ready"}, [], "no source of this workspace offers a tool named gh__x"),
    ],
)  # fmt: skip
def test_why_tells_of_a_tool_that_is_not_there_what_its_source_says(
    run: Any, control: Any, source: dict[str, Any], issues: list[Any], said: str
) -> None:
    sources = [{"id": "stdio:gh", "namespace": "gh", "error": None, **source}]
    control.say("POST /inspect", {"ok": True, "tools": [], "sources": sources, "issues": issues})
    assert said in run("tools", "why", "gh__x").output


@pytest.mark.usefixtures("inspected")
def test_why_speaks_to_programs(run: Any) -> None:
    found = json.loads(run("tools", "why", "wait", "--json").stdout)
    assert (found["ok"], found["tool"]["state"], len(found["issues"])) == (True, "pending", 1)


@pytest.mark.usefixtures("inspected")
@pytest.mark.parametrize(("name", "step"), [("GREET", "did you mean greet?"), ("xyz", "lmtb tools --all")])
def test_why_of_an_unknown_name_helps(run: Any, name: str, step: str) -> None:
    result = run("tools", "why", name)
    assert result.exit_code == exit_codes.FAILED
    assert step in result.stderr


def test_why_of_a_tool_whose_source_is_down_says_so(run: Any, inspected: Any) -> None:
    down = {"id": "stdio:db", "namespace": "db", "state": "crash_looping", "error": "no DATABASE_URL"}
    inspected.say("POST /inspect", {"ok": True, "tools": [], "issues": [], "sources": [down]})
    said = run("tools", "why", "db__query").stderr
    assert 'db__query is not known, because "stdio:db" ends again and again: no DATABASE_URL' in said
    assert "lmtb servers" in said


def test_why_names_the_clients_that_start_the_server_themselves(run: Any, inspected: Any) -> None:
    """They do not get its tools from us."""
    row = {"name": "proj__echo", "source": "stdio:proj", "state": "callable", "listed": True}
    source = {"id": "stdio:proj", "namespace": "proj", "state": "ready", "file": ".mcp.json"}
    inspected.say("POST /inspect", {"ok": True, "tools": [row], "issues": [], "sources": [source]})
    for names, is_told in (([], False), (["proj"], True)):
        own = {"file": ".mcp.json", "names": names, "allBut": False}
        seen = {"name": "claude-code", "workspace": "srv-1", "ownServers": [own]}
        instance = {"workspace": "srv-1", "root": "/srv"}
        inspected.say("GET /mcp/status", {"clientDetails": [seen], "instanceDetails": [instance]})
        said = run("tools", "why", "proj__echo", "--cwd", "/srv/below").stdout
        told = 'it is not in the list of Claude Code, which starts "proj" of .mcp.json itself'
        assert (told in said) is is_told
        assert "proj__echo is listed and can be called" in said


@pytest.mark.parametrize("order", [("--cwd", "/srv", "why", "greet"), ("why", "greet", "--cwd", "/srv")])
def test_the_folder_may_be_named_before_or_after_the_further_verb(
    run: Any, inspected: Any, order: tuple[str, ...]
) -> None:
    assert run("tools", *order).exit_code == 0
    assert inspected.asked == [("POST /inspect", {"cwd": "/srv"})]


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (
            404,
            {"reason": "workspace_not_matched", "message": "x"},
            "/srv is in no workspace\nNext step: go to a project, or make this folder one, with: git init, or"
            " mkdir .lm-tools-bridge",
        ),
        (
            404,
            {"reason": "invalid_cwd", "message": "there is no folder /srv"},
            "there is no folder /srv\nNext step: name an existing folder",
        ),
        (
            503,
            {"reason": "workspace_server_offline", "message": "it crashed"},
            "it crashed\nNext step: check with: lmtb doctor",
        ),
    ],
)
def test_a_refusal_is_printed_with_the_next_step(
    run: Any, control: Any, status: int, answer: dict[str, Any], said: str
) -> None:
    control.say("POST /inspect", {"ok": False, **answer}, status)
    result = run("tools", "--cwd", "/srv")
    assert (result.exit_code, result.stderr) == (exit_codes.FAILED, f"{said}\n")
    assert json.loads(run("tools", "--json", "--cwd", "/srv").stdout)["error"]["reason"] == answer["reason"]


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What this process would have become."""
    found: list[list[str]] = []

    def become(_: str, command: list[str]) -> None:
        found.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", become)
    return found


Words = Callable[[list[str]], list[str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "p"
    (folder / ".git").mkdir(parents=True)
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    return folder


@pytest.mark.parametrize("word", ["enable", "disable", "expose", "unexpose"])
def test_switching_is_done_for_the_root_of_the_workspace(
    run: Any, executed: list[list[str]], project: Path, word: str
) -> None:
    """It works without a manager, by the same rules; the name cannot be checked then."""
    assert run("tools", word, "greet").stderr.startswith(
        "note: whether there is a tool named greet was not checked"
    )
    assert executed[0][-6:] == ["tools", word, "--root", str(project), "--", "greet"]


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("word", ["allow", "ask", "deny"])
def test_decisions_are_the_users_and_need_no_workspace(
    run: Any, executed: list[list[str]], word: str
) -> None:
    run("tools", word, "greet", "--cwd", "/")
    assert executed[0][-4:] == ["tools", word, "--", "greet"]


@pytest.mark.usefixtures("inspected", "project")
@pytest.mark.parametrize("word", ["allow", "ask", "deny"])
def test_an_unknown_name_is_refused_with_the_nearest_one(
    run: Any, executed: list[list[str]], word: str
) -> None:
    """A rule for a mistyped name would have no effect."""
    result = run("tools", word, "gret")
    assert (result.exit_code, executed) == (1, [])
    assert "no source of this workspace offers a tool named gret" in result.stderr
    assert "did you mean greet?" in result.stderr
    assert "--force" in result.stderr
    run("tools", word, "gret", "--force")
    run("tools", word, "greet")
    assert [command[-3:] for command in executed] == [[word, "--", "gret"], [word, "--", "greet"]]


@pytest.fixture
def resolved(inspected: Any, project: Path) -> Path:
    """The project, which the manager knows."""
    inspected.say("POST /resolve", {"ok": True, "match": {"workspaceFolders": [str(project)]}})
    return project


def test_a_visibility_is_chosen_for_a_tool_or_a_source_that_there_is(
    run: Any, executed: list[list[str]], resolved: Path
) -> None:
    run("tools", "visibility", "greet", "always")
    run("tools", "visibility", "--source", "gh", "ondemand")
    run("tools", "visibility", "gone", "default", "--force")
    begun = ["tools", "visibility", "--root", str(resolved)]
    assert [command[command.index("tools") :] for command in executed] == [
        [*begun, "--", "greet", "always"],
        [*begun, "--source", "--", "stdio:gh", "ondemand"],
        [*begun, "--", "gone", "default"],
    ]


@pytest.mark.usefixtures("resolved")
@pytest.mark.parametrize(
    "verb", ["enable", "disable", "expose", "unexpose", "allow", "ask", "deny", "visibility"]
)
def test_a_name_may_look_like_an_option(run: Any, executed: list[list[str]], verb: str) -> None:
    rest = ["always"] if verb == "visibility" else []
    run("tools", verb, "--force", "--json", "--", "--root", *rest)
    (command,) = executed
    assert command[command.index("--") - 1 :] == ["--json", "--", "--root", *rest]


@pytest.mark.usefixtures("resolved")
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("gret", "always"), 1, "did you mean greet?"),
        (("--source", "stdio:hg", "always"), 1, "no source named stdio:hg; did you mean stdio:gh?"),
        (("greet", "hidden"), 2, "'native', 'ondemand', 'always', 'default'"),
    ],
)
def test_a_choice_for_nothing_is_refused(
    run: Any, executed: list[list[str]], words: tuple[str, ...], code: int, said: str
) -> None:
    result = run("tools", "visibility", *words)
    assert (result.exit_code, executed) == (code, [])
    assert said in result.stderr


@pytest.mark.parametrize(
    ("description", "line"),
    [
        ("Find files. More.", "Find files"),
        ("One\n  line.", "One line"),
        (None, ""),
        ("v1.2 of it", "v1.2 of it"),
    ],
)
def test_tools_are_introduced_by_one_sentence(description: object, line: str) -> None:
    assert first_sentence(description) == line


def test_skills_are_listed_below_the_tools(run: Any, control: Any) -> None:
    skills = [
        {
            "uri": "skill://project/release/SKILL.md",
            "name": "release",
            "source": "skills",
            "state": "listed",
            "description": "Makes releases. And more.",
            "fileCount": 2,
        },
        {"name": "deploy", "source": "skills", "state": "pending"},
    ]
    control.say("POST /inspect", {**INSPECTED, "skills": skills})
    lines = [line.split() for line in run("tools").stdout.splitlines()]
    assert ["project/release", "skills", "listed", "2", "Makes", "releases"] in lines
    assert ["deploy", "skills", "waits", "for", "trust"] in [line[:5] for line in lines]


FAR = "build:/srv/app"


@pytest.mark.usefixtures("inspected")
@pytest.mark.parametrize(
    ("words", "asked", "said"),
    [
        (("deny", "greet"), {"tool": "greet", "change": "deny"}, "greet never runs"),
        (("enable", "greet"), {"tool": "greet", "change": "enable"}, "greet is enabled"),
        (("expose", "greet"), {"tool": "greet", "change": "expose"}, "greet is exposed: it can be enabled"),
        (
            ("visibility", "greet", "ondemand"),
            {"name": "greet", "visibility": "ondemand", "ofSource": False},
            "greet is not listed, but found with tool_search",
        ),
        (
            ("visibility", "gh", "always", "--source"),
            {"name": "stdio:gh", "visibility": "always", "ofSource": True},
            "What stdio:gh offers is always listed, also in discovery mode",
        ),
    ],
)
def test_tools_of_another_host_are_changed_by_the_manager_there(
    run: Any,
    control: Any,
    executed: list[list[str]],
    words: tuple[str, ...],
    asked: dict[str, Any],
    said: str,
) -> None:
    about = {"source": "stdio:gh"} if "--source" in words else {"tool": "greet"}
    done = {"ok": True, **about, "root": "ssh://build/srv/app", "host": "ssh://build", "file": "/f\x1b"}
    control.say("POST /tools/change", {**done, "waitsFor": "lmtb trust ssh://build/srv/app"})
    result = run("tools", *words, "--cwd", FAR)
    assert result.stdout.splitlines() == [
        f"{said}. Written to /f\\x1b on ssh://build.",
        "That file comes with the project, so it waits for: lmtb trust ssh://build/srv/app",
    ]
    assert ("POST /tools/change", {"cwd": FAR, **asked}) in control.asked
    assert executed == []
    assert json.loads(run("tools", *words, "--cwd", FAR, "--json").stdout)["host"] == "ssh://build"


def test_a_short_name_of_a_source_needs_a_manager_that_knows_it(
    run: Any, executed: list[list[str]], project: Path
) -> None:
    """Written as it is, it would have no effect."""
    refused = run("tools", "visibility", "gh", "native", "--source", "--cwd", str(project))
    assert (refused.exit_code, executed) == (1, [])
    assert "such as stdio:gh or remote:gh" in refused.stderr
    for whole in ("stdio:gh", "builtin"):
        run("tools", "visibility", whole, "native", "--source", "--cwd", str(project))
    run("tools", "visibility", "gh", "native", "--source", "--force", "--cwd", str(project))
    assert [command[-2] for command in executed] == ["stdio:gh", "builtin", "gh"]


def test_the_cost_has_the_meta_tools(run: Any, control: Any) -> None:
    meta = [{"name": "tool_search", "tokens": 300}, {"name": "execute_tool", "tokens": 200}]
    control.say("POST /inspect", {"ok": True, "tools": [tool("a")], "metaTools": meta})
    assert run("tools").stdout.splitlines()[-1] == (
        "1 tool listed with tool_search and execute_tool, about 600 tokens in a model's context"
    )


def test_the_cost_has_the_instructions_and_what_clients_send_that_defer_tools(run: Any, control: Any) -> None:
    rows = [tool(f"memory__read_{number}", description="x" * 1000, tokens=300) for number in range(20)]
    control.say("POST /inspect", {"ok": True, "tools": rows, "instructions": {"tokens": 130}})
    total, first = run("tools").stdout.splitlines()[-2:]
    assert total == "20 tools listed, about 6130 tokens in a model's context"
    assert first.startswith("in the first request of clients that find tools by a search, about: ")
    costs = {
        row["client"]: row["tokens"] for row in json.loads(run("tools", "--json").stdout)["firstRequests"]
    }
    names, beginnings = costs["Claude Code"] - 130, costs["Qwen Code"] - 130
    assert costs["Codex"] == 65  # 250 characters
    assert 20 * 8 < names < 20 * 16
    assert 20 * 40 < beginnings - names < 20 * 45  # 160 characters of each description


def test_the_command_for_a_name_like_an_option_can_be_run(run: Any, control: Any) -> None:
    off = tool("-x", state="hidden", listed=False, reason="disabled: it is in disabledDelta")
    control.say("POST /inspect", {"ok": True, "tools": [off]})
    assert "enable it with: lmtb tools enable -- -x" in run("tools", "why", "--", "-x").stdout
