"""Recorded contents lose their secrets, and keep everything else."""

from __future__ import annotations

import json
import time

import pytest

from lm_tools_bridge.text import redaction
from lm_tools_bridge.text.redaction import HIDDEN, Redactor, looks_random


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


def key(prefix: str, length: int = 24) -> str:
    """A key of this form; no real one, and put together here so that nothing takes it for one."""
    return prefix + ("aB3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 8)[:length]


@pytest.mark.parametrize(
    "secret",
    [
        key("SG.", 22) + "." + key("", 43), key("hvs."), key("hvb."), "AGE-SECRET-KEY-" + "1QX0Y9Z8" * 7,
        key("whsec_"), key("glrt-"), key("xapp-1-"), key("GOCSPX-"), key("1//0"), key("rubygems_"),
        key("dckr_pat_"), key("shpat_"), key("ATATT3x"), key("lin_api_"), key("ntn_"), key("PMAK-"),
        key("HRKU-"), key("dapi"), key("glsa_"), key("dp.pt."), key("NRAK-"), key("sntrys_"), key("figd_"),
        key("gsk_"), key("xai-"), key("pplx-"), key("r8_"), key("sbp_"), key("pscale_tkn_"), key("sq0atp-"),
        key("tskey-auth-"), "key-" + "0123456789abcdef" * 2, "SK" + "0123456789abcdef" * 2,
        "110201543:AA" + key("", 33), key("M", 24) + ".aB3dE6." + key("", 27),
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "$2b$12$" + key("", 53), "$6$salt$" + key("", 40),
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nMIIE\n-----END PGP PRIVATE KEY BLOCK-----",
    ],
)  # fmt: skip
def test_keys_of_providers_are_hidden_without_a_name_beside_them(secret: str) -> None:
    assert Redactor().text(f"see {secret} here") == f"see {HIDDEN} here"


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("redis://:pw@h:6379/0", f"redis://{HIDDEN}@h:6379/0"),
        ("amqp://me:p@ss@h/x", f"amqp://{HIDDEN}@h/x"),
        ("curl -u ann:abc http://h/", f"curl -u ann:{HIDDEN} http://h/"),
        ("curl --user 'ann:abc' h", f"curl --user 'ann:{HIDDEN}' h"),
        ("curl --proxy-user=ann:abc h", f"curl --proxy-user=ann:{HIDDEN} h"),
        ("tool --password x run", f"tool --password {HIDDEN} run"),
        ("tool --api-key=abc run", f"tool --api-key={HIDDEN} run"),
        ("tool --auth-token 'two words' run", f"tool --auth-token {HIDDEN} run"),
        ("sshpass -p abc ssh h", f"sshpass -p {HIDDEN} ssh h"),
        ("mysql -u root -pabc shop", f"mysql -u root -p{HIDDEN} shop"),
        ("docker login -u ann -p abc r.io", f"docker login -u ann -p {HIDDEN} r.io"),
        ("redis-cli -h h -a abc ping", f"redis-cli -h h -a {HIDDEN} ping"),
        ("openssl rsa -passin pass:abcd", f"openssl rsa -passin pass:{HIDDEN}"),
        ("MYSQL_PWD=x mysql", f"MYSQL_PWD={HIDDEN} mysql"),
        ("DB_PWD=abc", f"DB_PWD={HIDDEN}"),
        ("export PASSWORD=abc", f"export PASSWORD={HIDDEN}"),
        ("SECRET_KEY='two words'", f"SECRET_KEY='{HIDDEN}'"),
        ('password: "correct horse battery"', f'password: "{HIDDEN}"'),
        ("AccountName=a;AccountKey=Zm9vYmFyLw/+A==;E=b", f"AccountName=a;AccountKey={HIDDEN};E=b"),
        ("PrivateKey = aGVsbG8vd29ybGQ=", f"PrivateKey = {HIDDEN}"),
        ("X-Api-Key: abcdef", f"X-Api-Key: {HIDDEN}"),
        ("Cookie: a=b; c=d", f"Cookie: {HIDDEN}"),
        ("machine h login ann password abc", f"machine h login ann password {HIDDEN}"),
        ("db.h:5432:shop:ann:abc", f"db.h:5432:shop:ann:{HIDDEN}"),
        ("*:*:shop:ann:abc", f"*:*:shop:ann:{HIDDEN}"),
        ("https://b/x?sv=1&sig=abc%3D&se=2", f"https://b/x?sv=1&sig={HIDDEN}&se=2"),
        ("https://hooks.slack.com/services/T000000/B00/XXXX00", f"https://hooks.slack.com/services/{HIDDEN}"),
        ("https://d/api/webhooks/1234/abcdefghijklmnop", f"https://d/api/webhooks/1234/{HIDDEN}"),
    ],
)
def test_what_is_a_secret_by_its_place_is_hidden_and_the_rest_stays(text: str, hidden: str) -> None:
    assert Redactor().text(text) == hidden
    redactor = Redactor()
    redactor.text(hidden)
    assert redactor.text(hidden) == hidden  # hidden once


@pytest.mark.parametrize(
    ("words", "hidden"),
    [
        (["curl", "-u", "ann:abc", "http://h"], ["curl", "-u", f"ann:{HIDDEN}", "http://h"]),
        (["tool", "--password", "two words"], ["tool", "--password", HIDDEN]),
        (["tool", "--token", "abc", "--verbose"], ["tool", "--token", HIDDEN, "--verbose"]),
        (["tool", "--max-tokens", "100"], ["tool", "--max-tokens", "100"]),
        (["tool", "--password-file", "/run/x"], ["tool", "--password-file", "/run/x"]),
        (["tool", "--password", "--verbose"], ["tool", "--password", "--verbose"]),
        (["docker", "run", "-u", "1000:1000"], ["docker", "run", "-u", "1000:1000"]),
    ],
)
def test_the_words_of_a_command_are_read_together(words: list[str], hidden: list[str]) -> None:
    assert Redactor().value({"args": words}) == {"args": hidden}


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u 1000:1000 -v /a:/b image",
        "chown root:root file; docker exec -u root:root c sh",
        "sort -u a.txt",
        "the --token option must be set, the --password flag is optional",
        "docker login --password-stdin < file",
        "tool --max-tokens 4096 --token-limit 8 --secret-name db --api-key-file key.txt",
        "OLDPWD=/home/me PWD=/home/me/project",
        "TOKEN=$CI_JOB_TOKEN and PASSWORD=${DB_PASSWORD}",
        'passwordLabel: "Enter your password here"',
        "risk-assessment-report and a task-runner-configuration in disk-usage-overview",
        "host:8080:a b",
        "http://localhost:8080/path@v1 and mailto:me@example.org",
        "src/components/Button/index.tsx and a/b/c/d/e/f",
        "https://github.com/org/repo/pull/12/files#diff-1",
        "12:30:45:678 INFO started",
        "the cookie: a small file",
        "login page: the password field is empty",
        "keyboard=us monkey=1",
        "3.10.1 SGML key-value pairs, r8 and xai, dapper",
        "mysql -h db -P 3306 --protocol tcp",
        "def compass(self, bypass: bool) -> None:",
    ],
)
def test_texts_about_secrets_and_ordinary_commands_are_kept(text: str) -> None:
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    ("word", "is_random"),
    [
        ("aB3dE6gH9jK2mN5pQ8s", False),  # 19 characters
        ("aB3dE6gH9jK2mN5pQ8sT", True),  # 20
        ("0123456789abcdef0123456789abcde", False),  # 31 digits
        ("0123456789abcdef0123456789abcdef", True),  # 32
        ("0123456789abcdef0123456789abcdef01234567", False),  # git's object names
        ("0123456789abcdef0123456789abcdef0123456", True),
        ("aB1aB1aB1aB1aB1aB1aB1", False),  # mixed, of 1.6 bits
        ("aB3dE6gHaB3dE6gHaB3dE6gH", False),  # 3.0 bits
        ("aB3dE6gH9jK2aB3dE6gH9jK2", True),  # 3.6 bits
        ("abcDEF123abcDEFGHJK456mnp", False),  # 0.3 changes a character
        ("aabBccDd1eefFggHh2jjK", True),  # 0.6
        ("aB3dE6gH9jK2mN5pQ8sTt" + "uvwxyzuvwxyzuvwxyzuvwxyzuvwx", True),  # 20 changes in 49
        ("aB3dE6gH9jK2mN5pQ8sTt" + "uvwxyzuvwxyzuvwxyzuvwxyzuvwxyz", False),  # 20 changes in 51
    ],
)
def test_a_word_is_a_key_from_these_thresholds_on(word: str, is_random: bool) -> None:
    assert looks_random(word) is is_random


@pytest.mark.parametrize(
    "text",
    ["\n" * 50_000, " \t" * 25_000, "cookie:\n" * 5_000, "--password " * 4_000, "://a:b" * 8_000],
    ids=["empty lines", "blanks", "cookies", "options", "addresses"],
)
def test_no_text_takes_time_by_the_square_of_its_length(text: str) -> None:
    began = time.process_time()
    Redactor().text(text)
    assert time.process_time() - began < 5, "by the square of its length it takes minutes"


@pytest.mark.parametrize(("text", "is_hidden"), [("size={}", False), ("--password {}", True)])
def test_numbers_of_any_length_are_read(text: str, is_hidden: bool) -> None:
    """Python refuses to read a number of more than 4,300 digits."""
    assert (HIDDEN in Redactor().text(text.format("1" * 5_000))) is is_hidden
