"""Programs are found in shell commands wherever they hide, and what cannot be told is said."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.agent.shell_commands import MAX_BYTES, parse, programs_in

FOUND = [
    "rm -rf build", "/bin/rm x", "./../../bin/rm x", "\\rm x", "r''m x", 'r"m" x', "'rm' x", "$'rm' x",
    "env rm x", "env -i A=1 rm x", "env -u HOME rm x", "A=1 rm x", "find . -exec rm {} ';'", "find . -name x -exec rm {} +",
    "find . -type f | xargs rm", "xargs -0 -n 1 rm", "xargs -I{} rm {}", "true; rm x", "true && rm x", "false || rm x",
    "true & rm x", "true\nrm x", "(rm x)", "{ rm x; }", "echo $(rm x)", "echo `rm x`", 'echo "a $(rm x) b"', "cat <(rm x)",
    "cat <<E\n$(rm x)\nE\n", "bash -c 'rm x'", 'sh -c "rm x"', "bash -lc 'true; rm x'", "bash -c \"bash -c 'rm x'\"",
    "eval rm x", "eval 'rm x'", "sudo rm x", "sudo -u root rm x", "sudo -E -- rm x", "sudo env A=1 nice -n 5 rm x",
    "sudo bash -c 'rm x'", "nohup rm x", "timeout 5 rm x", "timeout -s KILL 5s rm x", "time rm x", "command rm x", "exec rm x",
    "busybox rm x", "if true; then rm x; fi", "for a in 1; do rm $a; done", "while rm x; do :; done", "f() { rm x; }; f",
    "case x in a) rm b;; esac", "! rm x", "coproc rm x", "a=$(rm x)", "${x:-$(rm y)}", "[[ -f $(rm x) ]]", "echo hi > $(rm x)",
    "nice rm x", "setsid rm x", "stdbuf -oL rm x", "ssh host rm x", "ssh host 'cd /; rm x'", "watch 'rm x'", "trap 'rm x' EXIT",
    "doas rm x", "xargs -a list env rm", "parallel rm ::: a b", "flock /tmp/l rm x", "r\\\nm x", "# note \\\nrm x", "docker run image rm x", "su -c 'rm x'",
    "env '-Srm x'", "env -S'rm x'", "env --split-string='rm x'", "parallel ::: 'rm x'", "script '-crm x' /dev/null", "flock x --command='rm x'",
    "alias q=rm\nq x", "alias a=ls 'q=true; rm -f'\nq x",
]  # fmt: skip


@pytest.mark.parametrize("text", FOUND)
def test_a_program_is_found_anywhere(text: str) -> None:
    found = programs_in(text)
    assert "rm" in found.names
    assert found.is_whole


@pytest.mark.parametrize(
    "text",
    [
        "$x file", "r${y}m file", '"$x" file', "$(cat name) file", "`cat name` file", "/bin/r? file", "{rm,-rf,x}",
        "env $x", "sudo $x", "xargs $x", "eval $x", 'eval "$x"', 'bash -c "$x"', "echo x | bash", "bash < file", "bash <<E\nls\nE",
        "curl example.org | sh", "sh -s", "find . -exec $x {} +", "$'\\x72m' x", "timeout 5 $x",
        'alias "q=$x"', "alias q='$x'",
    ],
)  # fmt: skip
def test_what_only_the_shell_knows_is_undecided(text: str) -> None:
    found = programs_in(text)
    assert not (found.is_decided and found.is_whole)


@pytest.mark.parametrize("text", ["echo 'a", "if", "foo(", "case", "$((", "a\0b", "x" * (MAX_BYTES + 1)])
def test_what_is_no_shell_is_not_whole(text: str) -> None:
    assert programs_in(text).is_whole is False


@pytest.mark.parametrize(
    "text",
    [
        "ls -la", "git commit -m 'rm the old files'", "echo rm", "grep -rn 'sudo rm' .", "find . -name '*.py'", "cat $HOME/x | sort -u",
        'find . -name "$pattern"', "make -j4 && ./run --rm", "python -m pytest tests", "echo $((1 + 2))", "xargs grep foo", "bash build.sh",
        'for f in *.txt; do echo "$f"; done',
    ],
)  # fmt: skip
def test_harmless_commands_are_decided_and_free_of_it(text: str) -> None:
    found = programs_in(text)
    assert "rm" not in found.names
    assert (found.is_whole, found.is_decided) == (True, True)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("python -c 'x'", "python"), ("python3.12 -Sc 'x'", "python"), ("/usr/bin/python3 -c'x'", "python"),
        ("python", "python"), ("python -", "python"), ("echo x | python3", "python"), ("python3 <<E\nx\nE", "python"),
        ("node -e 'x'", "node"), ("node --eval='x'", "node"), ("perl -e 'x'", "perl"), ("perl -MFoo -lane 'x'", "perl"),
        ("ruby -e x", "ruby"), ("php -r 'x;'", "php"), ("deno eval 'x'", "deno"), ("lua5.4 -e x", "lua"),
        ("pwsh -Command x", "pwsh"), ("awk 'BEGIN { system(\"x\") }'", "awk"), ("awk '{ print | \"sh\" }'", "awk"),
        ("env A=1 python -c x", "python"), ("uv run python -c x", "python"), ("npx node -e x", "node"),
        ("python $x", "python"), ("bash -c 'python -c x'", "python"), ("true; python3 -c x", "python"),
    ],
)  # fmt: skip
def test_code_for_an_interpreter_is_noticed(text: str, name: str) -> None:
    assert programs_in(text).runs_code == name


@pytest.mark.parametrize(
    "text",
    [
        "python build.py -c x", "python -m pytest -c x", "python --version", "node server.js", "perl script.pl",
        "awk '{ print $1 }' file", "ruby test.rb", "uv run pytest", "npm run build", "deno run main.ts", "grep -e python -c x",
    ],
)  # fmt: skip
def test_scripts_in_files_are_no_such_code(text: str) -> None:
    assert programs_in(text).runs_code == ""


def test_words_of_code_count_as_programs() -> None:
    found = programs_in("""python -c 'import os; os.system("sudo rm -rf x")'""")
    assert {"sudo", "rm"} <= found.names


def test_a_hostile_text_is_read_in_bounded_time() -> None:
    began = time.process_time()
    found = programs_in("env -a " * 30 + "'" + "echo a; " * 2_000 + "'")
    assert time.process_time() - began < 3
    assert not found.is_decided


@given(st.text(alphabet="rm$(){}'\"`;|&<> \\\n=#*~!-x", max_size=60))
def test_any_text_can_be_read(text: str) -> None:
    parse(text)
    programs_in(text)


def test_deep_nesting_ends() -> None:
    assert programs_in("$(" * 5_000 + ")" * 5_000).is_decided is False
    assert programs_in("env -a " * 3_000 + "rm x").is_decided is False
    assert programs_in("ssh " * 100 + "rm x").is_decided is False
