"""The look at a name misses no rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workspace_server.sources.builtin.files.ignore import IgnoreFile
from workspace_server.sources.builtin.files.names import NameTest

PART = st.sampled_from(["a", "b", "a.x", "*", "**", "*.x", "a*", "?", "[ab]", "[", "\\\\a", "a b"])
RULE = st.builds(
    "{}{}".format, st.lists(PART, min_size=1, max_size=3).map("/".join), st.sampled_from(["", "/"])
)
NAME = st.sampled_from(["a", "b", "a.x", "b.x", "ab", "c", "[", "a b", "é"])


@given(st.lists(RULE, max_size=5), st.lists(NAME, max_size=2), NAME)
def test_a_name_that_is_no_suspect_has_no_verdict(rules: list[str], above: list[str], name: str) -> None:
    file = IgnoreFile.of(rules)
    path = "/".join([*above, name])
    if file is not None and not file.names.among([name]):
        assert file.verdict(path) is None
        assert file.verdict(f"{path}/") is None


def test_two_tests_together_suspect_the_names_of_both() -> None:
    both = NameTest.of(["a", "*.x"]) | NameTest.of(["b"])
    assert set(both.among(["a", "b", "c", "c.x"])) == {"a", "b", "c.x"}
    assert list((both | NameTest.of(["*"])).among(["c"])) == ["c"]


@given(st.lists(RULE, max_size=5), st.lists(NAME, min_size=1, max_size=4))
def test_a_text_with_a_suspect_is_known_at_once(rules: list[str], names: list[str]) -> None:
    file = IgnoreFile.of(rules)
    if file is not None and file.names.among(names):
        assert file.names.is_in(f"/{'/'.join(names)}/")
    assert not (NameTest.of(["a", "*.x"]) | NameTest.of(["b"])).is_in("/aa/c/c.xy/")
