"""Recorded contents lose their secrets, and keep everything else."""

from __future__ import annotations

import json

import pytest

from host.text import redaction
from host.text.redaction import HIDDEN
from manager.recorder.contents.redaction import Redactor


@pytest.mark.parametrize(
    "text",
    [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "sk-proj-abcdefghijklmnop",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqqgy",
        "eyJhbGciOiJIUzI1NiIs.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
        "wJalrXUtnFEMI+K7MDENG+bPxRfiCYEXAMPLEKEY9",
        "deadbeefdeadbeef0123456789abcdef",
        "postgres://me:hunter2hunter2@db/shop",
        "Authorization: Bearer abcdefgh12345678",
        "PASSWORD=hunter2hunter2",
        "a token of ours: lmtb_deadbeefDEADBEEF0",
        'config says "api_key": "short-but-secret"',
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    redactor = Redactor()
    hidden = redactor.text(f"before {text} after")
    assert HIDDEN in hidden
    assert redactor.hidden >= 1
    assert hidden.startswith("before ")
    assert hidden.endswith(" after")
    assert not any(
        word in hidden for word in ("hunter2", "MIIE", "short-but", "abcdefgh", "wJalr", "deadbeef")
    )


@pytest.mark.parametrize(
    "text",
    [
        "an ordinary sentence about tokens and passwords",
        "/home/me/projects/SomeVeryLongDirectoryName42/src/module.py",
        "0af7651916cd43dd8448eb211c80319cdeadbeef",  # a commit
        "3f2b8c1e-9d4a-4f6b-8e2a-1c5d7f9b3a6e",
        "12345678901234567890123456789012",
        "getUserAuthenticationFromRequestContext",
        '{"count": 3}',
    ],
)
def test_ordinary_texts_are_kept(text: str) -> None:
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.hidden == 0


def test_members_with_the_name_of_a_secret_are_hidden() -> None:
    value = {"password": "abc", "deep": [{"apiKey": "x y", "path": "a.py"}], "maxTokens": 5, "token": None}
    assert Redactor().value(value) == {
        "password": HIDDEN,
        "deep": [{"apiKey": HIDDEN, "path": "a.py"}],
        "maxTokens": 5,
        "token": None,
    }


def test_a_password_of_digits_is_hidden_and_a_count_or_a_flag_is_not() -> None:
    value = {"password": 123456, "client_secret": 7.5, "maxTokens": 100, "passwordRequired": True}
    assert Redactor().value(value) == {
        "password": HIDDEN, "client_secret": HIDDEN, "maxTokens": 100, "passwordRequired": True,
    }  # fmt: skip


def test_configured_members_are_hidden_in_any_case() -> None:
    assert Redactor(["Patient"]).value({"patient": {"name": "Ann"}, "id": 1}) == {"patient": HIDDEN, "id": 1}


def test_known_secrets_are_hidden_wherever_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_values", set())
    redaction.hide("correct horse battery")
    assert "horse" not in Redactor().json_text(json.dumps({"text": "the correct horse battery staple"}))


def test_json_stays_json_and_other_texts_stay_texts() -> None:
    assert json.loads(Redactor().json_text('{"a": [1, "ü", null]}')) == {"a": [1, "ü", None]}
    assert Redactor().json_text("no json") == "no json"
    assert HIDDEN in Redactor().json_text('{"password": "cut of')  # nothing of it is shown
    assert Redactor().json_text("[" * 100_000).startswith("[[[")
