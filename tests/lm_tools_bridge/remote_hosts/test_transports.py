"""The commands that reach hosts."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.transports import background, interactive, login, logout

WORDS = ["/opt/it's here/lmtb", "remote", "serve"]


def test_ssh_asks_nothing_and_lends_nothing_in_the_background() -> None:
    command = background(Host("ssh", "build", "ada", 2222), WORDS)
    assert command[:4] == ["ssh", "-T", "-e", "none"]
    assert {"BatchMode=yes", "ForwardAgent=no", "ClearAllForwardings=yes", "RemoteCommand=none"} <= set(
        command
    )
    assert command[-7:-1] == ["-l", "ada", "-p", "2222", "--", "build"]


def test_the_words_survive_the_shell_of_the_other_side() -> None:
    said = background(Host("ssh", "build"), ["printf", "%s\\n", "it's $HOME", "a;b", "*"])[-1]
    done = subprocess.run(["sh", "-c", said], capture_output=True, check=True, text=True)
    assert done.stdout.splitlines() == ["it's $HOME", "a;b", "*"]


def test_programs_in_the_users_own_folder_are_found(tmp_path) -> None:
    program = tmp_path / ".local" / "bin" / "hello-there"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    said = background(Host("ssh", "build"), ["hello-there"])[-1]
    done = subprocess.run(
        ["sh", "-c", said],
        capture_output=True,
        check=True,
        text=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout == "found\n"


@pytest.mark.parametrize(
    ("host", "begin"),
    [
        (Host("docker", "web"), ["docker", "exec", "-i", "web", "sh", "-c"]),
        (Host("podman", "web"), ["podman", "exec", "-i", "web", "sh", "-c"]),
        (Host("wsl", "Ubuntu"), ["wsl.exe", "-d", "Ubuntu", "--exec", "sh", "-c"]),
        (
            Host("kubectl", "team/pod-0"),
            ["kubectl", "--namespace", "team", "exec", "-i", "pod-0", "--", "sh", "-c"],
        ),
    ],
    ids=["docker", "podman", "wsl", "kubectl"],
)
def test_other_tools_get_words_and_no_shell_here(host: Host, begin: list[str]) -> None:
    command = background(host, WORDS)
    assert command[: len(begin)] == begin
    assert command[-3:] == WORDS


def test_an_ipv6_host_is_named_without_brackets() -> None:
    assert background(Host("ssh", "[::1]"), WORDS)[-2] == "::1"


def test_a_login_of_a_person_is_used_where_there_is_one() -> None:
    assert "ControlPath=/run/x" in background(Host("ssh", "build"), WORDS, "/run/x")
    assert not any("ControlPath" in part for part in background(Host("ssh", "build"), WORDS))


def test_only_ssh_has_a_login_of_its_own() -> None:
    made = login(Host("ssh", "build"), "/run/x", 60)
    assert made is not None
    assert made[0] == "ssh"
    assert "ControlPersist=60" in made
    assert login(Host("docker", "web"), "/run/x", 60) is None


def test_verbs_at_the_terminal_get_one() -> None:
    assert interactive(Host("ssh", "build"), ["lmtb", "trust", "/a b"])[:2] == ["ssh", "-t"]
    assert shlex.split(interactive(Host("ssh", "build"), ["lmtb", "trust", "/a b"])[-1])[-1] == "/a b"
    assert interactive(Host("docker", "web"), ["lmtb"])[:4] == ["docker", "exec", "-i", "-t"]


def test_a_persons_connection_ignores_what_is_for_other_visits() -> None:
    made = login(Host("ssh", "build"), "/run/x", 60)
    for command in (made or [], interactive(Host("ssh", "build"), ["lmtb"])):
        options = command[: command.index("--")]
        assert {"RemoteCommand=none", "ClearAllForwardings=yes"} <= set(options)


def test_a_login_is_ended_by_its_socket() -> None:
    ended = logout(Host("ssh", "build", "ada", 2222), "/run/x")
    assert ended == [
        "ssh",
        "-O",
        "exit",
        "-o",
        "ControlPath=/run/x",
        "-l",
        "ada",
        "-p",
        "2222",
        "--",
        "build",
    ]
    assert logout(Host("docker", "web"), "/run/x") is None
