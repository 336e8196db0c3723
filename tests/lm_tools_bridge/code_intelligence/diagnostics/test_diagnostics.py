"""Diagnostics are fresh only if they are about the version on disk, however a server tells them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.diagnostics.publications import Publications
from lm_tools_bridge.code_intelligence.diagnostics.tsserver_diagnostics import COMMAND
from lm_tools_bridge.code_intelligence.server import RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from support.servers.language_servers.recording_peer import ANSWER_S, CLANGD, PYTHON, Followed
from workspace_server.files import single_flight

PULL, WORKSPACE = "textDocument/diagnostic", "workspace/diagnostic"


@pytest.fixture
async def pushing(tmp_path: Path) -> AsyncIterator[Followed]:
    """A server that publishes with versions."""
    followed = Followed(tmp_path, CLANGD, ready="first-answer")
    await followed.sync.tell_changes()
    yield followed
    await followed.sync.close()


@pytest.fixture
async def pulling(tmp_path: Path) -> AsyncIterator[Followed]:
    """A server that answers requests for diagnostics."""
    followed = Followed(tmp_path, PYTHON)
    followed.peer.answers[PULL] = lambda params: {"kind": "full", "items": [{"message": "asked"}]}
    await followed.sync.tell_changes()
    yield followed
    await followed.sync.close()


async def found(
    followed: Followed, *paths: Path, wait_s: float = ANSWER_S
) -> tuple[list[list[str]], str, str]:
    """The messages by file, the state and the reason."""
    answer = await followed.sync.diagnostics(paths or None, wait_s)
    messages = [[one["message"] for one in file.diagnostics] for file in answer.files]
    return messages, answer.freshness.state, answer.freshness.reason


def wrong_if_bad(text: str) -> Sequence[str]:
    return ["bad"] if "bad" in text else []


async def test_a_publication_of_the_version_is_fresh(pushing: Followed) -> None:
    pushing.publish_each_version(wrong_if_bad)
    path = pushing.write("a.cpp", "bad")
    assert await found(pushing, path) == ([["bad"]], "fresh", "")
    pushing.write("a.cpp", "good")
    assert await found(pushing, path) == ([[]], "fresh", "")


async def test_without_a_publication_clean_and_unknown_are_told_apart(pushing: Followed) -> None:
    path = pushing.write("a.cpp", "")
    pushing.sync.take_notification(
        "textDocument/clangd.fileStatus", {"uri": to_uri(path), "state": "parsing includes"}
    )
    messages, state, reason = await found(pushing, path, wait_s=0.05)
    assert (messages, state) == ([[]], "unknown")
    assert "parsing includes" in reason


async def test_a_publication_of_an_older_version_is_stale(pushing: Followed) -> None:
    path = pushing.write("a.cpp", "bad")
    pushing.publish_each_version(wrong_if_bad)
    await found(pushing, path)
    pushing.peer.on_sent = lambda method, params: None
    pushing.write("a.cpp", "good")
    messages, state, reason = await found(pushing, path, wait_s=0.05)
    assert (messages, state) == ([["bad"]], "stale")
    assert reason


async def test_a_late_publication_of_an_old_version_is_not_taken(pushing: Followed) -> None:
    path = pushing.write("a.cpp", "good")
    pushing.peer.on_sent = lambda method, params: pushing.publish(to_uri(path), "old", version=0)
    assert (await found(pushing, path, wait_s=0.05))[1] == "stale"


async def test_what_is_published_while_headers_are_read_is_not_the_last_word(pushing: Followed) -> None:
    path = pushing.write("a.cpp", "")

    def status(state: str) -> None:
        pushing.sync.take_notification(
            "textDocument/clangd.fileStatus", {"uri": to_uri(path), "state": state}
        )

    def opened(method: str, params: Any) -> None:
        document = params.get("textDocument", {})
        if "version" not in document:
            return
        status("parsing includes, running Update")
        pushing.publish(document["uri"], "old headers", version=document["version"])
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: pushing.publish(document["uri"], "new", version=document["version"]))
        loop.call_soon(lambda: status("idle"))

    pushing.peer.on_sent = opened
    assert await found(pushing, path) == ([["new"]], "fresh", "")


async def test_after_a_new_compile_command_the_first_publication_is_not_the_last_word(
    pushing: Followed,
) -> None:
    paths = [pushing.write(name, "int x;") for name in ("a.cpp", "b.cpp")]
    pushing.publish_each_version()
    pushing.write("compile_commands.json", "[]")
    await pushing.sync.tell_changes()
    await found(pushing, *paths)

    def opened(method: str, params: Any) -> None:
        document = params.get("textDocument", {})
        if "version" not in document:
            return
        uri, version = document["uri"], document["version"]

        def status(state: str) -> None:
            pushing.sync.take_notification("textDocument/clangd.fileStatus", {"uri": uri, "state": state})

        pushing.publish(uri, "old command", version=version)
        status("idle")
        loop = asyncio.get_running_loop()
        loop.call_later(0.02, lambda: pushing.publish(uri, "new command", version=version))

    pushing.peer.on_sent = opened
    pushing.write("compile_commands.json", "[ ]")
    await pushing.sync.tell_changes()
    assert await found(pushing, *paths) == ([["new command"], ["new command"]], "fresh", "")


async def test_without_the_last_word_on_a_new_compile_command_an_answer_is_stale(pushing: Followed) -> None:
    path = pushing.write("a.cpp", "int x;")
    pushing.publish_each_version()
    pushing.write("compile_commands.json", "[]")
    await pushing.sync.tell_changes()
    await found(pushing, path)
    pushing.publish_each_version(lambda text: ["old command"])
    pushing.write("compile_commands.json", "[ ]")
    await pushing.sync.tell_changes()
    await pushing.sync.ready(ANSWER_S)
    assert (await found(pushing, path, wait_s=0.2))[1] == "stale"


async def test_after_changes_of_other_files_an_open_file_is_checked_again(pushing: Followed) -> None:
    path = pushing.write("a.cpp", "int x;")
    pushing.publish_each_version(wrong_if_bad)
    await pushing.sync.tell_changes()
    assert await found(pushing, path) == ([[]], "fresh", "")
    versions = iter("bad")
    pushing.publish_each_version(lambda text: ["dependency"] if next(versions, "") else [])
    pushing.write("other.h", "changed")
    await pushing.sync.tell_changes()
    assert await found(pushing, path) == ([["dependency"]], "fresh", "")


async def test_publications_without_versions_are_never_fresh(tmp_path: Path) -> None:
    followed = Followed(tmp_path, PYTHON, offers_pull=False)
    path = followed.write("a.py", "")
    followed.peer.on_sent = lambda method, params: followed.publish(to_uri(path), "first")
    task = asyncio.create_task(found(followed, path, wait_s=ANSWER_S))
    messages, state, reason = await task
    assert (messages, state) == ([["first"]], "unknown")
    assert "version" in reason
    await followed.sync.close()


async def test_a_file_that_changes_during_the_request_is_asked_about_again(pulling: Followed) -> None:
    path = pulling.write("a.py", "one")

    def answer(params: Any) -> Any:
        if len(pulling.peer.asked) == 1:
            pulling.write("a.py", "two")
        return {"kind": "full", "items": [{"message": str(len(pulling.peer.asked))}]}

    pulling.peer.answers[PULL] = answer
    assert await found(pulling, path) == ([["2"]], "fresh", "")


async def test_a_file_that_never_rests_is_stale(pulling: Followed) -> None:
    path = pulling.write("a.py", "")

    def answer(params: Any) -> Any:
        pulling.write("a.py", "x" * len(pulling.peer.asked))
        return {"kind": "full", "items": []}

    pulling.peer.answers[PULL] = answer
    assert (await found(pulling, path))[1] == "stale"


async def test_unchanged_stands_for_the_answer_of_that_id(pulling: Followed) -> None:
    path = pulling.write("a.py", "")

    def answer(params: Any) -> Any:
        if params.get("previousResultId") == "r1":
            return {"kind": "unchanged", "resultId": "r1"}
        return {"kind": "full", "resultId": "r1", "items": [{"message": "kept"}]}

    pulling.peer.answers[PULL] = answer
    for _ in range(2):
        assert await found(pulling, path) == ([["kept"]], "fresh", "")


async def test_unchanged_without_an_earlier_answer_is_unknown(pulling: Followed) -> None:
    pulling.peer.answers[PULL] = lambda params: {"kind": "unchanged", "resultId": "x"}
    assert (await found(pulling, pulling.write("a.py", "")))[1] == "unknown"


async def test_a_refresh_makes_earlier_answers_void(pulling: Followed) -> None:
    path = pulling.write("a.py", "")
    pulling.peer.answers[PULL] = lambda params: {"kind": "full", "resultId": "r1", "items": []}
    await found(pulling, path)
    pulling.sync.take_refresh("workspace/diagnostic/refresh")
    await found(pulling, path)
    assert all("previousResultId" not in params for _, params in pulling.peer.asked)


async def test_related_documents_are_kept_for_their_own_ids(pulling: Followed) -> None:
    one, two = pulling.write("one.py", ""), pulling.write("two.py", "")
    related = {to_uri(two): {"kind": "full", "resultId": "r2", "items": [{"message": "related"}]}}

    def answer(params: Any) -> Any:
        if params.get("previousResultId") == "r2":
            return {"kind": "unchanged", "resultId": "r2"}
        return {"kind": "full", "items": [], "relatedDocuments": related}

    pulling.peer.answers[PULL] = answer
    await found(pulling, one)
    assert await found(pulling, two) == ([["related"]], "fresh", "")


async def test_a_server_that_announces_pull_later_is_waited_for(tmp_path: Path) -> None:
    followed = Followed(tmp_path, PYTHON)
    task = asyncio.create_task(found(followed, followed.write("a.py", "")))
    await asyncio.sleep(0)
    followed.peer.answers[PULL] = lambda params: {"kind": "full", "items": []}
    assert await task == ([[]], "fresh", "")
    await followed.sync.close()


@pytest.mark.parametrize("answer", [None, 3, [], {}, {"kind": "full"}, {"kind": "full", "items": 5}])
async def test_an_answer_that_is_no_report_is_unknown(pulling: Followed, answer: Any) -> None:
    pulling.peer.answers[PULL] = lambda params: answer
    assert (await found(pulling, pulling.write("a.py", "")))[1] == "unknown"


async def test_a_refused_request_is_unknown_with_the_reason(pulling: Followed) -> None:
    def refuse(params: Any) -> Any:
        raise RequestFailed(-32600, "not today")

    pulling.peer.answers[PULL] = refuse
    _, state, reason = await found(pulling, pulling.write("a.py", ""))
    assert state == "unknown"
    assert "not today" in reason


async def test_one_file_that_cannot_be_read_limits_the_whole_answer(pulling: Followed) -> None:
    answer = await pulling.sync.diagnostics([pulling.write("a.py", ""), pulling.folder / "b.py"], ANSWER_S)
    freshness = answer.freshness
    assert (freshness.state, freshness.done, freshness.total) == ("unknown", 1, 2)
    assert "b.py" in freshness.reason


async def test_text_that_is_not_utf_8_is_said(pulling: Followed) -> None:
    path = pulling.write("a.py", "")
    path.write_bytes(b"# \xe9\n")
    _, state, reason = await found(pulling, path)
    assert state == "fresh"
    assert "Latin-1" in reason


async def test_the_project_is_asked_for_where_that_is_possible(pulling: Followed) -> None:
    path = pulling.write("a.py", "x\n")
    report = {"uri": to_uri(path), "kind": "full", "version": None, "items": [{"message": "all"}]}
    pulling.peer.answers[WORKSPACE] = lambda params: {"items": [report, 3, {"uri": 5}]}
    assert await found(pulling) == ([["all"]], "fresh", "")


async def test_a_project_of_a_server_for_single_files_is_partial(pushing: Followed) -> None:
    pushing.publish_each_version(wrong_if_bad)
    await pushing.sync.open(pushing.write("a.cpp", "bad"))
    other = pushing.write("other.cpp", "")
    pushing.publish(to_uri(other), "of another file")
    messages, state, reason = await found(pushing)
    assert sorted(messages) == [["bad"], ["of another file"]]
    assert state == "partial"
    assert "2 files" in reason


async def test_servers_around_typescript_are_asked_for_the_diagnostics_of_now(tmp_path: Path) -> None:
    followed = Followed(tmp_path, PYTHON)
    followed.peer.offered = {"executeCommandProvider": {"commands": [COMMAND]}}

    def answer(params: Any) -> Any:
        place = {"line": 1, "offset": 3}
        item = {"start": place, "end": place, "text": params["arguments"][0], "category": "error", "code": 7}
        return {"body": [item, {"start": 5}, None]}

    followed.peer.answers["workspace/executeCommand"] = answer
    result = await followed.sync.diagnostics([followed.write("a.py", "")], ANSWER_S)
    assert result.freshness.state == "fresh"
    [file] = result.files
    kinds = [one["message"] for one in file.diagnostics]
    assert kinds == ["syntacticDiagnosticsSync", "semanticDiagnosticsSync", "suggestionDiagnosticsSync"]
    assert file.diagnostics[0]["range"]["start"] == {"line": 0, "character": 2}
    await followed.sync.close()


def test_publications_are_bounded() -> None:
    kept = Publications(limit=10)
    for number in range(5):
        diagnostics = [{"message": "x"}] * 4
        kept.published({"uri": f"file:///p/{number}.py", "diagnostics": diagnostics}, 0)
    assert [path.name for path in kept.paths()] == ["3.py", "4.py"]
    assert kept.has_forgotten
    kept.published({"uri": "file:///p/large.py", "diagnostics": diagnostics * 100}, 0)
    assert sum(len(one.diagnostics) for one in map(kept.get, kept.paths()) if one) == 10


@pytest.mark.parametrize(
    "params",
    [
        *(None, [], {}, {"uri": 3, "diagnostics": []}, {"uri": "http://x", "diagnostics": []}),
        *({"uri": "file:///a", "diagnostics": {}}, {"uri": "file:///\0", "diagnostics": []}),
    ],
)
def test_nonsense_is_not_published(params: Any) -> None:
    kept = Publications()
    kept.published(params, 0)
    assert kept.paths() == []


@pytest.fixture
async def holding(tmp_path: Path) -> AsyncIterator[Followed]:
    """A server that does not answer about a project without diagnostics, as ty."""
    followed = Followed(tmp_path, PYTHON, ready="first-answer", holds_empty_reports=True)
    await followed.sync.tell_changes()
    yield followed
    await followed.sync.close()


def checked(followed: Followed, params: Any, kind: str = "end") -> None:
    """The server says how far a check is."""
    progress = {"token": params["workDoneToken"], "value": {"kind": kind, "message": "Checked 20 files"}}
    followed.sync.take_notification("$/progress", progress)


async def test_a_report_held_back_after_the_check_is_a_clean_project(holding: Followed) -> None:
    answers: list[asyncio.Future[Any]] = []

    def answer(params: Any) -> asyncio.Future[Any]:
        checked(holding, params, "begin")
        checked(holding, params)
        answers.append(asyncio.get_running_loop().create_future())
        return answers[-1]

    holding.peer.answers[WORKSPACE] = answer
    assert await found(holding) == ([], "fresh", "")
    assert answers[0].cancelled()


async def test_a_report_that_follows_its_progress_is_taken(holding: Followed) -> None:
    report = {"uri": to_uri(holding.write("a.py", "x\n")), "kind": "full", "items": [{"message": "late"}]}

    async def answer(params: Any) -> Any:
        checked(holding, params)
        await asyncio.sleep(0.05)
        return {"items": [report]}

    holding.peer.answers[WORKSPACE] = answer
    assert await found(holding) == ([["late"]], "fresh", "")


async def test_a_check_without_an_end_is_not_taken_for_a_clean_project(holding: Followed) -> None:
    async def answer(params: Any) -> Any:
        checked(holding, params, "report")
        holding.sync.take_notification("$/progress", {"token": "another", "value": {"kind": "end"}})
        raise RequestTimedOut("fake did not answer")

    holding.peer.answers[WORKSPACE] = answer
    assert (await found(holding))[1] == "partial"


async def test_two_callers_at_once_both_hear_of_the_newest_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_flight, "are_local", lambda folders: False)  # both look before either is done
    followed = Followed(tmp_path, PYTHON, ready="first-answer", offers_pull=False)
    await followed.sync.tell_changes()
    path = followed.write("a.py", "bad")
    await followed.sync.open(path)
    followed.write("other.py", "changed")
    await followed.sync.tell_changes()
    versions: list[int] = []

    def publish_last(method: str, params: Any) -> None:
        if method == "textDocument/didChange":
            versions.append(params["textDocument"]["version"])
            if len(versions) == 2:
                followed.publish(params["textDocument"]["uri"], "bad", version=versions[-1])

    followed.peer.on_sent = publish_last
    answers = await asyncio.gather(*(found(followed, path, wait_s=2) for _ in range(2)))
    assert len(versions) == 2
    assert answers == [([["bad"]], "fresh", "")] * 2
    await followed.sync.close()


async def test_a_server_that_knows_some_errors_only_is_partial(tmp_path: Path) -> None:
    followed = Followed(tmp_path, PYTHON, ready="first-answer", diagnostic_limits="no wrong types")
    path = followed.write("a.py", "")
    followed.peer.answers[PULL] = lambda params: {"kind": "full", "items": []}
    assert await found(followed, path) == ([[]], "partial", "no wrong types")
    await followed.sync.close()
