"""A model reads the values of variables that are known to be no secrets, and no credentials in them."""

from __future__ import annotations

import pytest

from lm_tools_bridge.text.harmless_variables import is_harmless, without_credentials

SECRET = (
    "MYSQL_PWD", "GITHUB_PAT", "DATABASE_URL", "NPM_AUTH", "DOCKER_AUTH_CONFIG", "SENTRY_DSN", "SLACK_WEBHOOK_URL",
    "REDIS_URL", "AZURE_STORAGE_CONNECTION_STRING", "CI_JOB_JWT", "DB_PWD", "OPENAI_API_KEY", "GH_TOKEN",
    "AWS_SECRET_ACCESS_KEY", "MONGODB_URI", "TWILIO_SID", "BASIC_AUTH", "SESSION", "VAULT_SEED", "LMTB_SECRET_X",
    "HF_HUB", "PGPASSFILE", "STRIPE", "CREDS", "SECRET_PATH", "openai_api_key", "X",
)  # fmt: skip
HARMLESS = (
    "HOME", "PATH", "LANG", "LC_ALL", "XDG_RUNTIME_DIR", "PYTHONPATH", "JAVA_HOME", "VIRTUAL_ENV", "NODE_ENV",
    "RUST_LOG", "CFLAGS", "GOPATH", "CARGO_HOME", "SSH_AUTH_SOCK", "https_proxy", "LMTB_STATE_DIR", "CI",
)  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_what_is_not_known_to_be_harmless_is_not(name: str) -> None:
    assert not is_harmless(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_programs_need_is_harmless(name: str) -> None:
    assert is_harmless(name)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("http://ada:hunter2@proxy:3128", "http://[hidden]@proxy:3128"),
        ("https://ghp_x@github.com/a", "https://[hidden]@github.com/a"),
        ("a=ssh://u:p@h b=ftp://:p@h", "a=ssh://[hidden]@h b=ftp://[hidden]@h"),
        ("https://h/x?sig=abc&a=1&api_key=z", "https://h/x?sig=[hidden]&a=1&api_key=[hidden]"),
        ("/usr/bin:/home/a@b/bin", "/usr/bin:/home/a@b/bin"),
        ("http://proxy:3128", "http://proxy:3128"),
    ],
)
def test_credentials_in_addresses_are_hidden(value: str, shown: str) -> None:
    assert without_credentials(value) == shown
