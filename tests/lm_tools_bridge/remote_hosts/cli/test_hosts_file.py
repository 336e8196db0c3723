"""Changes of the file of hosts."""

from __future__ import annotations

from pathlib import Path

from lm_tools_bridge.machine.files.private_files import make_private
from lm_tools_bridge.remote_hosts.address import Host
from lm_tools_bridge.remote_hosts.cli.hosts_file import add_host, remove_host
from lm_tools_bridge.remote_hosts.known_hosts import FILE, KnownHost, read_known_hosts

BUILD = KnownHost("build", Host("ssh", "build", "ada", 2222))
BOX = KnownHost("box", Host("podman", "box"), ("/opt/my tools/lmtb", "-v"))


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    make_private(tmp_path)
    add_host(tmp_path, BUILD)
    add_host(tmp_path, BOX)
    assert read_known_hosts(tmp_path) == {"build": BUILD, "box": BOX}
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


def test_a_name_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    make_private(tmp_path)
    add_host(tmp_path, BUILD)
    add_host(tmp_path, BOX)
    moved = KnownHost("box", Host("docker", "other"))
    add_host(tmp_path, moved)
    assert read_known_hosts(tmp_path) == {"build": BUILD, "box": moved}


def test_comments_and_other_tables_stay(tmp_path: Path) -> None:
    text = '# mine\n[other]\nkey = 1 # one\n\n[hosts.old]\naddress = "ssh://old" # keep\n'
    (tmp_path / FILE).write_text(text)
    add_host(tmp_path, BUILD)
    assert (tmp_path / FILE).read_text().startswith(text.rstrip("\n"))
    remove_host(tmp_path, "build")
    assert (tmp_path / FILE).read_text().strip() == text.strip()


def test_a_host_that_is_not_there_is_removed_without_harm(tmp_path: Path) -> None:
    make_private(tmp_path)
    remove_host(tmp_path, "build")
    add_host(tmp_path, BUILD)
    remove_host(tmp_path, "other")
    assert read_known_hosts(tmp_path) == {"build": BUILD}
    remove_host(tmp_path, "build")
    assert read_known_hosts(tmp_path) == {}
