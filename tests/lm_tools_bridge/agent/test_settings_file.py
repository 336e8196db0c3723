"""The table `[agent]` is read with clear messages, and changed without loss."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings, default
from lm_tools_bridge.agent.settings_file import NotEditable, load, manager_endpoint, project_folder, save
from manager.configuration.settings import Settings, load_settings


def written(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_a_missing_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml") == (AgentSettings(), ())


def test_values_of_the_table_are_taken(tmp_path: Path) -> None:
    text = """
http_port = 47111
[agent]
default_provider = "lab"
human_in_loop = false
repeatable = ["clock"]
[agent.model]
lab = "qwen"
[agent.providers.Lab]
kind = "openai"
api_base = "http://127.0.0.1:9/v1"
"""
    loaded = load(written(tmp_path, text))
    assert loaded.problems == ()
    settings = loaded.settings
    assert (settings.default_provider, settings.human_in_loop, settings.repeatable) == (
        "lab",
        False,
        ("clock",),
    )
    assert settings.model == {"lab": "qwen"}
    assert settings.providers["lab"].api_base == "http://127.0.0.1:9/v1"


def test_an_unknown_key_is_told_with_its_line_and_the_nearest_one(tmp_path: Path) -> None:
    path = written(tmp_path, "[agent]\nhuman_in_lop = false\nloop_limit = 3\n")
    loaded = load(path)
    assert loaded.settings == AgentSettings(loop_limit=3)
    [problem] = loaded.problems
    assert problem == (
        f"agent.human_in_lop ({path}, line 2): there is no such setting; did you mean human_in_loop?"
    )


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("loop_limit = 0", "loop_limit"),
        ('human_in_loop = "no"', "human_in_loop"),
        ('sudo = "yes"', "sudo"),
        ("connect_s = nan", "connect_s"),
        ("answer_s = -1", "answer_s"),
        ('endpoint = "file:///etc"', "endpoint"),
        ('default_provider = "olama"', "default_provider"),
        ('key_sources = ["post-it"]', "key_sources"),
        ("providers = 3", "providers"),
    ],
)
def test_a_wrong_value_is_told_and_its_default_holds(tmp_path: Path, line: str, name: str) -> None:
    loaded = load(written(tmp_path, f"[agent]\nstream = false\n{line}\n"))
    assert loaded.settings == AgentSettings(stream=False)
    [problem] = loaded.problems
    assert f"agent.{name} " in problem
    assert "line 3" in problem


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('loop_limit = "zwei"', "must be a whole number"),
        ("loop_limit = 0", "must be at least 1"),
        ("loop_limit = 2000", "must be at most 1000"),
        ("human_in_loop = 1", "must be true or false"),
        ('connect_s = "long"', "must be a number"),
        ("connect_s = 0", "must be greater than 0"),
        ('endpoint = "file:///etc"', "must be an address that begins with http:// or https://"),
        ('default_provider = ""', "must not be empty"),
        ('repeatable = "x"', "must be a list"),
        ("model = 1", "must be a table"),
        ("answer_s = true", "must be a number"),
        ("model = {ollama = 1}", "must be a text"),
    ],
)
def test_what_is_wrong_is_said_in_words(tmp_path: Path, line: str, words: str) -> None:
    [problem] = load(written(tmp_path, f"[agent]\n{line}\n")).problems
    assert words in problem
    assert problem.endswith("; the default holds")


def test_a_value_that_is_not_saved_is_said_without_a_line(tmp_path: Path) -> None:
    with pytest.raises(NotEditable, match=r"^loop_limit: must be a whole number$"):
        save(written(tmp_path, "[agent]\n"), {("loop_limit",): "zwei"})


def test_one_wrong_provider_does_not_cost_the_others(tmp_path: Path) -> None:
    text = '[agent.providers.good]\nkind = "openai"\n[agent.providers.bad]\nkind = "telepathy"\n'
    loaded = load(written(tmp_path, text))
    assert list(loaded.settings.providers) == ["good"]
    assert "agent.providers.bad" in loaded.problems[0]


@pytest.mark.parametrize("text", ["[agent", "agent = 1", "[agent]\nx = \xff"])
def test_a_file_that_cannot_be_used_gives_the_defaults(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(text.encode("latin-1"))
    loaded = load(path)
    assert loaded.settings == AgentSettings()
    assert str(path) in loaded.problems[0]


def test_the_manager_ignores_the_table(tmp_path: Path) -> None:
    path = written(tmp_path, "call_timeout_s = 7\n[agent]\nnonsense = 1\n")
    assert load_settings(path, {}, {}) == Settings(call_timeout_s=7)


def test_a_change_keeps_comments_and_closes_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "# mine\nhttp_port = 1 # port\n\n[agent] # table\nloop_limit = 3 # few\n")
    path.chmod(0o644)
    save(path, {("loop_limit",): 9, ("model", "ollama"): "tiny"})
    text = path.read_text()
    assert "# mine\nhttp_port = 1 # port\n" in text
    assert "[agent] # table\nloop_limit = 9 # few\n" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path).settings == AgentSettings(loop_limit=9, model={"ollama": "tiny"})


def test_a_change_makes_the_file_and_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    save(path, {("human_in_loop",): False})
    assert load(path) == (AgentSettings(human_in_loop=False), ())
    save(path, {("human_in_loop",): None})
    assert load(path) == (AgentSettings(), ())


def test_a_change_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    real = written(tmp_path, "[agent]\n")
    link = tmp_path / "link.toml"
    link.symlink_to(real)
    save(link, {("stream",): False})
    assert link.is_symlink()
    assert load(real).settings.stream is False


def test_a_broken_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = written(tmp_path, "[agent\n")
    with pytest.raises(NotEditable, match=r"config\.toml"):
        save(path, {("stream",): False})
    assert path.read_text() == "[agent\n"


def test_a_value_that_does_not_fit_is_not_saved(tmp_path: Path) -> None:
    path = written(tmp_path, "[agent]\nunknown = 1\nloop_limit = 3\n")
    before = path.read_bytes()
    with pytest.raises(NotEditable, match="loop_limit"):
        save(path, {("loop_limit",): 0})
    assert path.read_bytes() == before


def test_a_reply_of_a_local_model_may_take_less_time() -> None:
    assert AgentSettings().answer_limit("ollama") == 120
    assert AgentSettings().answer_limit("openai") == 300
    assert AgentSettings(answer_s=9).answer_limit("ollama") == 9


@pytest.fixture
def inner(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "src" / "inner"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("mark", [".git", ".lm-tools-bridge", ".vscode"])
def test_the_nearest_marked_folder_upward_is_the_project(inner: Path, mark: str) -> None:
    (inner.parents[1] / mark).mkdir()
    assert project_folder(inner) == inner.parents[1].resolve()


def test_settings_of_an_editor_inside_a_project_make_none(inner: Path) -> None:
    (inner.parents[1] / ".git").mkdir()
    (inner / ".vscode").mkdir()
    assert project_folder(inner) == inner.parents[1].resolve()


def test_the_home_folder_is_no_project(inner: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (inner.parents[1] / ".git").mkdir()
    monkeypatch.setenv("HOME", str(inner.parents[1]))
    assert project_folder(inner) == inner.resolve()


DEFAULT = default("endpoint")


@pytest.mark.parametrize(
    ("text", "variable", "endpoint"),
    [
        (None, None, DEFAULT),
        ("http_port = 47111", None, "http://127.0.0.1:47111/mcp"),
        ("http_port = 47111", "47222", "http://127.0.0.1:47222/mcp"),
        (None, "47222", "http://127.0.0.1:47222/mcp"),
        ("http_port = 0", None, DEFAULT),
        ("http_port = 47111", "0", DEFAULT),
        ("http_port = 47111", "nonsense", "http://127.0.0.1:47111/mcp"),
        ("http_port = true", None, DEFAULT),
        ("http_port = 99999", None, DEFAULT),
        ("http_port = ", None, DEFAULT),
        ("\0", None, DEFAULT),
    ],
)
def test_the_endpoint_has_the_port_of_the_users_manager(
    tmp_path: Path, text: str | None, variable: str | None, endpoint: str
) -> None:
    file = tmp_path / "config.toml"
    if text is not None:
        file.write_text(text)
    environ = {} if variable is None else {"LMTB_HTTP_PORT": variable}
    assert manager_endpoint(file, environ) == endpoint
