"""The file of hosts that the user has added, and where ssh keeps their logins."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from lm_tools_bridge.machine.private_files import make_private
from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.known_hosts import (
    FILE,
    InvalidHostsFile,
    KnownHost,
    add_host,
    find_entry,
    login_at,
    login_socket,
    read_known_hosts,
    remove_host,
)

BUILD = Host("ssh", "build", "ada")
ADDED_BUILD = KnownHost("build", Host("ssh", "build", "ada", 2222))
ADDED_BOX = KnownHost("box", Host("podman", "box"), ("/opt/my tools/lmtb", "-v"))


def test_no_file_means_no_hosts(tmp_path: Path) -> None:
    assert read_known_hosts(tmp_path) == {}


def test_hosts_have_names_addresses_and_commands(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(
        '[hosts.build]\naddress = "ssh://ada@build/"\n'
        '[hosts.box]\naddress = "podman://box"\ncommand = "/opt/my\\\\ tools/lmtb -v"\n'
    )
    hosts = read_known_hosts(tmp_path)
    assert hosts["build"] == KnownHost("build", BUILD, ("lmtb",))
    assert hosts["box"].command == ("/opt/my tools/lmtb", "-v")
    assert find_entry(hosts, Host("podman", "box")) is hosts["box"]
    assert find_entry(hosts, Host("docker", "box")) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hosts = 3", "must be a table"),
        ("[hosts.build]", "no address"),
        ("[hosts]\nbuild = 1", "no address"),
        ('[hosts.build]\naddress = "http://build"', "begins with none"),
        ('[hosts.build]\naddress = "ssh://build/srv"', "names a folder"),
        ('[hosts.build]\naddress = "ssh://-oProxyCommand=x"', "needs a host"),
        ('[hosts."b:u"]\naddress = "ssh://build"', "cannot be the name"),
        ('[hosts.ssh]\naddress = "ssh://build"', "cannot be the name"),
        ('[hosts.build]\naddress = "ssh://build"\ncommand = ""', "no command"),
        ('[hosts.build]\naddress = "ssh://build"\ncommand = "-e x"', "no command"),
        ('[hosts.build]\naddress = "ssh://build"\ncommand = 7', "no command"),
        ("[hosts", "cannot be read"),
    ],
)
def test_a_wrong_entry_is_named_with_its_file(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(InvalidHostsFile, match=problem) as caught:
        read_known_hosts(tmp_path)
    assert str(tmp_path / FILE) in str(caught.value)


def test_an_open_quote_in_a_command_is_a_wrong_entry(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('[hosts.build]\naddress = "ssh://build"\ncommand = "lmtb \'"')
    with pytest.raises(InvalidHostsFile, match="no command"):
        read_known_hosts(tmp_path)


@pytest.mark.parametrize("depth", [1, 30])
def test_ssh_can_make_its_socket_however_long_the_folder_is(tmp_path: Path, depth: int) -> None:
    path = login_socket(tmp_path / ("d" * 8 * depth), BUILD)
    assert len(os.fsencode(path)) + len(".Uap5zl3aTmfQ3xRz") < 108
    assert path == login_socket(tmp_path / ("d" * 8 * depth), BUILD)
    assert path != login_socket(tmp_path / ("d" * 8 * depth), Host("ssh", "build"))


def test_a_login_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "r"
    assert login_at(folder, BUILD) is None
    path = login_socket(folder, BUILD)
    make_private(path.parent)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        assert login_at(folder, BUILD) == path
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert login_at(folder, BUILD) is None
    path.unlink()


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    make_private(tmp_path)
    add_host(tmp_path, ADDED_BUILD)
    add_host(tmp_path, ADDED_BOX)
    assert read_known_hosts(tmp_path) == {"build": ADDED_BUILD, "box": ADDED_BOX}
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_name_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    make_private(tmp_path)
    add_host(tmp_path, ADDED_BUILD)
    add_host(tmp_path, ADDED_BOX)
    moved = KnownHost("box", Host("docker", "other"))
    add_host(tmp_path, moved)
    assert read_known_hosts(tmp_path) == {"build": ADDED_BUILD, "box": moved}


def test_comments_and_other_tables_stay(tmp_path: Path) -> None:
    text = '# mine\n[other]\nkey = 1 # one\n\n[hosts.old]\naddress = "ssh://old" # keep\n'
    (tmp_path / FILE).write_text(text)
    add_host(tmp_path, ADDED_BUILD)
    assert (tmp_path / FILE).read_text().startswith(text.rstrip("\n"))
    remove_host(tmp_path, "build")
    assert (tmp_path / FILE).read_text().strip() == text.strip()


def test_a_host_that_is_not_there_is_removed_without_harm(tmp_path: Path) -> None:
    make_private(tmp_path)
    remove_host(tmp_path, "build")
    add_host(tmp_path, ADDED_BUILD)
    remove_host(tmp_path, "other")
    assert read_known_hosts(tmp_path) == {"build": ADDED_BUILD}
    remove_host(tmp_path, "build")
    assert read_known_hosts(tmp_path) == {}
