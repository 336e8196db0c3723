"""Where windows of later versions say their port."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lm_tools_bridge.editors.discovery_sockets import PREFIX_VARIABLE, identity_of, sockets_for


def test_an_identity_is_the_folder_in_lower_case_with_backslashes() -> None:
    assert identity_of("folder", Path("/home/Ada/Proj")) == "folder|\\home\\ada\\proj"


def test_the_name_is_the_digest_of_the_identity(tmp_path: Path) -> None:
    root = tmp_path / "Proj"
    first = next(iter(sockets_for(root, {"TMPDIR": "/t"})))
    digest = hashlib.sha256(identity_of("folder", root).encode()).hexdigest()
    assert first.path == Path(f"/t/lm-tools-bridge.discovery.v1.{digest}.sock")


def test_a_default_name_fits_a_socket_address_only_in_the_usual_folder(tmp_path: Path) -> None:
    first = next(iter(sockets_for(tmp_path / "none", {})))
    assert len(str(first.path)) == 103 and first.path.parent == Path("/tmp")


def test_another_prefix_comes_from_the_environment(tmp_path: Path) -> None:
    first = next(iter(sockets_for(tmp_path / "none", {PREFIX_VARIABLE: "my pipes/"})))
    assert first.path.name.startswith("my_pipes_")


def test_the_search_goes_up_workspace_files_before_their_folder(tmp_path: Path) -> None:
    (tmp_path / "b.code-workspace").write_text("{}")
    (tmp_path / "a.code-workspace").write_text("{}")
    root = tmp_path / "proj"
    root.mkdir()
    found = [one.identity for one in sockets_for(root, {})][:4]
    files = [tmp_path / "a.code-workspace", tmp_path / "b.code-workspace"]
    assert found == [
        identity_of("folder", root),
        *(identity_of("workspace-file", file) for file in files),
        identity_of("folder", tmp_path),
    ]
