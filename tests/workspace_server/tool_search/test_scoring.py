"""Reference tables of scores, for the definition and the index."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workspace_server.tool_search.index import Index, Searchable
from workspace_server.tool_search.scoring import (
    MAX_QUERY,
    MAX_WORDS,
    THRESHOLD,
    distance,
    read_query,
    score,
    similarity_of,
    tool_texts,
)

CORPUS = {
    "ai_test_tool": ("Asks a model a question; the model may call a tool.", "ai, test, completion, tools"),
    "calculator": (
        "Basic arithmetic operations on two numbers.",
        "calculator, math, arithmetic, add, subtract, multiply, divide",
    ),
    "data_search": ("Looks through records.", "search, find, work request"),
    "execute_code": ("Runs code (Python-like).", ""),
    "greet": ("Small tool: greets a person.", "hello, greeting, welcome"),
    "mcp_demo": ("Shows list, search and execute calls.", "demo, mcp, example, tools, search, list"),
    "remote__list_repos": ("Repositories of the account.", "remote"),
    "send_email": ("Send an email to a recipient", "email, send, message, notification, smtp"),
    "string_processor": ("String tool: common operations on words.", "string, text, process, utility"),
    "weather_checker": ("Current conditions for a location.", "weather, temperature, forecast"),
}

TABLE = {
    "email": "send_email 0.92",
    "math": "calculator 0.85",
    "calculator": "calculator 1",
    "CALCULATOR": "calculator 1",
    "calc": "calculator 0.95",
    "lator": "calculator 0.8",
    "mail": "send_email 0.8",
    "python": "execute_code 0.5",
    "send mail": "send_email 0.875",
    "send email": "send_email 0.935",
    "send an email": "send_email 0.935",
    "email to the team": "send_email 0.46",
    "weather london": "weather_checker 0.475",
    "the weather": "weather_checker 0.95",
    "processor": "string_processor 0.92",
    "string processor": "string_processor 0.935",
    "text processing": "string_processor 0.635",
    "arithmetic operations": "calculator 0.725, string_processor 0.3",
    "find records": "data_search 0.725",
    "test": "ai_test_tool 0.92, string_processor 0.45",
    "tool": "ai_test_tool 0.92, mcp_demo 0.7, greet 0.6, string_processor 0.6",
    "search": "data_search 0.92, mcp_demo 0.85",
    "list": "remote__list_repos 0.92, mcp_demo 0.85",
    "repos": "remote__list_repos 0.92",
    "repo": "remote__list_repos 0.9",
    "remote": "remote__list_repos 0.95",
    "work": "data_search 0.85",
    "request": "data_search 0.85",
    "work request": "data_search 0.85",
    "calculater": "calculator 0.63",
    "calcualtor": "calculator 0.63",
    "weathr": "weather_checker 0.5143",
    "emial": "send_email 0.48",
    "sned mail": "send_email 0.625",
    "zzzzqqq": "",
    "a": "",
    "x": "",
    "the": "",
    "use": "",
}

Hits = list[tuple[str, float]]
Search = Callable[[str, list[Searchable]], Hits]


def tool(name: str, description: str = "", *keywords: str) -> Searchable:
    return Searchable(name, {"name": name, "description": description, "inputSchema": {}}, keywords)


def one_by_one(query: str, tools: list[Searchable]) -> Hits:
    """The definition, tool by tool."""
    read = read_query(query)
    scored = [(one.name, score(read, tool_texts(one.name, one.keywords, one.description))) for one in tools]
    hits = [(name, points) for name, points in scored if points >= THRESHOLD]
    return sorted(hits, key=lambda hit: (-hit[1], hit[0].lower(), hit[0]))


def by_index(query: str, tools: list[Searchable]) -> Hits:
    return [(one.name, points) for one, points in Index.of(tools).rank(read_query(query))]


@pytest.fixture(params=[one_by_one, by_index])
def search(request: pytest.FixtureRequest) -> Search:
    chosen: Search = request.param
    return chosen


@pytest.mark.parametrize(("query", "expected"), TABLE.items())
def test_reference_query_gives_its_results_in_order(query: str, expected: str, search: Search) -> None:
    corpus = [tool(name, text, *words.split(", ")) for name, (text, words) in CORPUS.items()]
    hits = [one.rsplit(" ", 1) for one in expected.split(", ")] if expected else []
    assert search(query, corpus) == [(name, float(points)) for name, points in hits]


@pytest.mark.parametrize(
    ("query", "first", "second"),
    [
        ("report", tool("generate_report_pdf"), tool("data_search", "", "report")),
        ("customer", tool("get_customer"), tool("a_list_customers")),
        ("list", tool("list_z"), tool("a_list")),
        ("send mail", tool("z", "", "send", "mail"), tool("send")),
        ("send_mail", tool("send_mail"), tool("a", "", "send_mail")),
        ("send_mail", tool("send_mail"), tool("send_mail_now", "send_mail", "send_mail")),
    ],
    ids=["token>keyword", "token>its beginning", "name beginning>token", "all words>one", "exact name", "exact name 2"],
)  # fmt: skip
def test_the_better_match_comes_first(
    query: str, first: Searchable, second: Searchable, search: Search
) -> None:
    hits = search(query, [second, first])
    assert hits[0][0] == first.name
    assert len(hits) == 1 or hits[0][1] > hits[1][1]


@pytest.mark.parametrize(
    ("query", "found", "points"),
    [
        ("vitamin c", tool("c_compiler"), 0.46),
        ("c", tool("compile_c"), 0.92),
        ("c", tool("compile", "", "language c"), 0.85),
        ("use", tool("use-case"), 0.92),
        ("to use", tool("x", "", "use"), 0.85),
        ("c", tool("abc", "c c c", "cc"), None),
        ("use", tool("used", "use", "users"), None),
        ("use", tool("use"), 1.0),
    ],
)
def test_letters_and_stop_words_match_whole_tokens_and_keywords_only(
    query: str, found: Searchable, points: float | None, search: Search
) -> None:
    """Scoring, before the table of tiers."""
    assert search(query, [found]) == ([] if points is None else [(found.name, points)])


@pytest.mark.parametrize(
    ("query", "found", "points"),
    [
        ("ｓｅｎｄ", tool("send_mail"), 0.95),
        ("STRASSE", tool("straße"), 0.7 * (1 - 2 / 7)),
        ("検索", tool("search", "ファイルを検索する。"), 0.5),
        ("日历", tool("calendar", "", "日历 事件"), 0.85),
        ("发送邮件", tool("发送邮件_v2"), 0.95),
        ("🔍🗂", tool("find", "🔍🗂 looks"), 0.6),
        ("send\u3000mail", tool("send_mail"), 0.935),
        ("python-like", tool("run", "code (Python-like)."), 0.6),
        ("(python", tool("run", "code (Python-like)."), 0.5),
        ("send_m", tool("send_mail"), 0.95),
        ("d_mail", tool("send_mail"), 0.8),
        ("mail mail box", tool("mail"), round(1.9 / 3, 4)),
    ],
)
def test_scripts_signs_and_spellings_are_compared_folded(
    query: str, found: Searchable, points: float, search: Search
) -> None:
    assert search(query, [found]) == [(found.name, round(points, 4))]


def test_guessing_needs_more_than_three_fifths_and_no_better_tier(search: Search) -> None:
    assert search("abcde", [tool("abcxy")]) == []  # s = 0.6
    assert search("abcdefg", [tool("abcdexy")]) == [("abcdexy", 0.5)]  # s = 5/7
    assert search("mail", [tool("email", "mail")]) == [("email", 0.8)]
    # the description says the word: 0.5, although the name alone would give 0.7 · 7/8
    assert search("calendar", [tool("calender", "calendars")]) == [("calender", 0.5)]


def test_hits_below_a_quarter_are_dropped_and_equal_ones_sorted_by_name(search: Search) -> None:
    tools = [tool("b", "word"), tool("B", "word"), tool("a", "word"), tool("c", "sword")]
    assert search("word", tools) == [("a", 0.6), ("B", 0.6), ("b", 0.6), ("c", 0.5)]
    assert search("sword foo", tools) == [("c", 0.3)]
    assert search("swor foo", tools) == [("c", 0.25)]
    assert search("swor foo bar", tools) == []


@pytest.mark.parametrize("query", ["", "  ", "\u3000\n"])
def test_blank_query_finds_everything_by_name(query: str, search: Search) -> None:
    assert search(query, [tool("b"), tool("C"), tool("a")]) == [("a", 1.0), ("b", 1.0), ("C", 1.0)]


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [("", "abc", 3), ("abc", "abc", 0), ("abcd", "acbd", 1), ("abcd", "abd", 1), ("kitten", "sitting", 3), ("ab", "ba", 1)],
)  # fmt: skip
def test_swapped_neighbours_are_one_step(one: str, other: str, steps: int) -> None:
    assert distance(one, other) == distance(other, one) == steps


def test_likeness_is_given_above_three_fifths_only() -> None:
    assert similarity_of("abcde", "abcxy") == 0
    assert similarity_of("abcdefgh", "abcde") == 1 - 3 / 8
    assert similarity_of("a" * 200, "b") == 0


def test_long_queries_are_read_up_to_a_bound() -> None:
    words = read_query(" ".join(f"w{number}" for number in range(100)))
    assert len(words.words) == MAX_WORDS
    assert len(read_query("ﷺ" * 1_000).text) <= MAX_QUERY  # one such sign folds to 18
