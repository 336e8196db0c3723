"""Tests the table of settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from manager.configuration.settings import FIELDS, ConfigurationError, Settings, description, load_settings


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Settings().http_port = 1


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_says_what_it_is(name: str) -> None:
    assert description(name).endswith(".")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def load(config: Path, **flags: Any) -> Settings:
    return load_settings(config, os.environ, flags)


def complaint(config: Path, **flags: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(config, **flags)
    return str(caught.value)


def test_without_anything_the_defaults_hold(config: Path) -> None:
    settings = load(config)
    assert settings == Settings()
    assert (settings.http_port, settings.session_limit, settings.match_wait_s) == (47100, 10_000, 5)
    assert (settings.session_idle_s, settings.session_unused_s, settings.workspace_idle_s) == (
        18_000,
        900,
        900,
    )


def test_each_origin_beats_the_one_before_it(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults, file, environment, flags."""
    config.write_text("http_port = 1001\ncall_timeout_s = 1.0\nlog_level = 'debug'\n")
    assert load(config).http_port == 1001
    monkeypatch.setenv("LMTB_HTTP_PORT", "1002")
    monkeypatch.setenv("LMTB_CALL_TIMEOUT_S", "2")
    assert load(config).http_port == 1002
    settings = load(config, http_port=1003)
    assert (settings.http_port, settings.call_timeout_s, settings.log_level) == (1003, 2.0, "debug")


def test_a_flag_that_was_not_given_changes_nothing(config: Path) -> None:
    config.write_text("http_port = 1001\n")
    assert load(config, http_port=None).http_port == 1001


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_is_fine(config: Path, text: str) -> None:
    config.write_text(text)
    assert load(config).http_port == 47100


def test_a_dotenv_file_does_not_configure_us(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("LMTB_HTTP_PORT=1\n")
    assert load(config).http_port == 47100


@pytest.mark.parametrize(
    ("file", "environ", "flags", "origin"),
    [
        ("http_port = 'x'", {}, {}, "config.toml, line 1)"),
        ("http_port = 1", {"LMTB_HTTP_PORT": "x"}, {}, "(environment variable LMTB_HTTP_PORT)"),
        ("http_port = 1", {"LMTB_HTTP_PORT": "1"}, {"http_port": -1}, "(--http-port)"),
    ],
)
def test_an_error_names_setting_and_origin(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    environ: dict[str, str],
    flags: dict[str, Any],
    origin: str,
) -> None:
    config.write_text(file)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    message = complaint(config, **flags)
    assert message.startswith("http_port (")
    assert origin in message


def test_a_word_that_is_none_of_a_setting_is_told_with_its_line_and_the_nearest(config: Path) -> None:
    config.write_text("http_port = 1\nlog_level = 'inf'\n")
    problem = "must be one of debug, info, warning, error; did you mean info?"
    assert complaint(config) == f"log_level ({config}, line 2): {problem}"


def test_every_problem_is_named_at_once(config: Path) -> None:
    config.write_text("http_port = 70000\nlog_level = 'loud'\n")
    message = complaint(config)
    assert "http_port" in message
    assert "log_level" in message


def test_an_unknown_name_in_the_file_is_refused(config: Path) -> None:
    config.write_text("htp_port = 1\n")
    message = complaint(config)
    assert "htp_port" in message
    assert "did you mean http_port?" in message
    assert "config.toml" in message


def test_an_unknown_variable_is_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTB_HTP_PORT", "1")
    message = complaint(config)
    assert "LMTB_HTP_PORT" in message
    assert "did you mean LMTB_HTTP_PORT?" in message


@pytest.mark.parametrize("name", ["CONFIG_DIR", "STATE_DIR", "RUNTIME_DIR"])
def test_variables_that_move_folders_are_no_strangers(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"LMTB_{name}", "/somewhere")
    assert load(config).http_port == 47100


@pytest.mark.parametrize("name", ["SECRET_GITHUB", "CHILD", "WORKSPACE", "TOOL_NAME", "TOOL_ARGS_FILE"])
def test_variables_of_secrets_and_of_our_own_children_are_no_strangers(
    config: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A script may run `lmtb`, and the user may keep secrets in the environment."""
    monkeypatch.setenv(f"LMTB_{name}", "x")
    assert load(config).http_port == 47100


def test_other_programs_variables_are_none_of_our_business(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PORT", "x")
    monkeypatch.setenv("LMTBX_Y", "x")
    assert load(config).http_port == 47100


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        (b"http_port = ", ", line 1"),
        (b"\xff\xfe", " is not UTF-8"),
        (b"x = 1\n[a\n", """, line 2, column 3: a "]" is missing at the end of the table's name"""),
    ],
)
def test_a_file_that_is_no_toml_is_named_with_the_mistake(config: Path, content: bytes, mistake: str) -> None:
    config.write_bytes(content)
    assert complaint(config).startswith(f"{config}{mistake}")


def test_a_value_that_does_not_fit_is_told_with_what_does(config: Path) -> None:
    config.write_text('http_port = "abc"\nkeep_alive_s = "long"\n')
    assert complaint(config) == (
        f"http_port ({config}, line 1): must be a whole number of at least 0 and at most 65535, such as 47100; "
        f"keep_alive_s ({config}, line 2): must be a number, such as 75"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_port", -1),
        ("http_port", 65536),
        ("call_timeout_s", 0),
        ("call_timeout_s", float("nan")),
        ("call_timeout_s", float("inf")),
        ("session_idle_s", float("nan")),
        ("workspace_idle_s", -1),
        ("workspace_idle_s", float("inf")),
        ("grace_s", float("inf")),
        ("session_limit", 0),
        ("health_misses", 0),
        ("health_interval_s", 0),
        ("log_level", "trace"),
        ("port_range_start", 80),
        ("auto_start", "perhaps"),
    ],
)
def test_a_value_out_of_range_is_refused(config: Path, name: str, value: object) -> None:
    assert complaint(config, **{name: value}).startswith(f"{name} (--{name.replace('_', '-')})")


@pytest.mark.parametrize(
    ("start", "end", "fits"),
    [(21000, 21000, True), (21001, 21000, False), (30000, None, False), (None, 20999, False)],
)
def test_the_range_of_ports_holds_at_least_one(
    config: Path, start: int | None, end: int | None, fits: bool
) -> None:
    if fits:
        assert load(config, port_range_start=start, port_range_end=end).port_range_end == end
    else:
        assert "is less than port_range_start" in complaint(
            config, port_range_start=start, port_range_end=end
        )


@pytest.mark.parametrize("text", ["false", "False", "FALSE", "0"])
def test_a_switch_is_read_from_the_environment(
    config: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("LMTB_AUTO_START", text)
    assert load(config).auto_start is False
