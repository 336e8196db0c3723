"""Recognising addresses on other hosts."""

from __future__ import annotations

import pytest

from manager.routing.remote_address import (
    RemoteRoot,
    is_remote_address,
    may_be_remote,
    split_root,
)


def test_only_what_may_be_remote_is_looked_up() -> None:
    assert all(map(may_be_remote, ("ssh://a/b", "build:/x", " docker://a/b", "ssh:/a/b")))
    assert not any(map(may_be_remote, ("/a", "file:///a", "C:/a", "a:b", "", "FILE:/x")))


def test_uris_of_editors_are_no_addresses_of_hosts() -> None:
    assert all(map(is_remote_address, ("ssh://a/b", "build:/x", " DOCKER://a/b")))
    assert not any(map(is_remote_address, ("vscode-remote://ssh-remote+a/b", "/a", "file:///a")))


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ("ssh://ada@build:2222/srv/app", RemoteRoot("ssh://ada@build:2222", "/srv/app")),
        ("kubectl://team/pod-0/srv/100%25", RemoteRoot("kubectl://team/pod-0", "/srv/100%25")),
        ("docker://web/", RemoteRoot("docker://web", "/")),
        ("/srv/app", None),
        ("C:\\work", None),
    ],
)
def test_a_root_is_split_into_its_host_and_the_folder_there(root: str, place: RemoteRoot | None) -> None:
    assert split_root(root) == place
