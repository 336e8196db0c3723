"""The context budget: windows in steps, what is left out, what a provider cut, and the line that shows it."""

from __future__ import annotations

import pytest

from lm_tools_bridge.agent.conversation.budget import (
    ContextBudget,
    Costs,
    Counted,
    chosen_window,
    costs_line,
    was_cut,
    window_limit,
)
from lm_tools_bridge.agent.conversation.history import messages_tokens
from lm_tools_bridge.agent.messages import (
    AssistantMessage,
    Call,
    Message,
    ModelWindow,
    Result,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
)

OLLAMA = ModelWindow(None, chosen=True)


def turn(number: int, size: int = 400, results: int = 1) -> list[Message]:
    """A turn of about `size` tokens in its results."""
    calls = tuple(Call(f"{number}.{at}", "read", {"n": at}) for at in range(results))
    text = "word and " * (size // 2 // max(results, 1))
    return [
        UserMessage(f"question {number}"),
        AssistantMessage("", calls),
        *(ToolMessage(Result(call.id, "read", text)) for call in calls),
        AssistantMessage(f"answer {number}"),
    ]


def history(turns: int, size: int = 400) -> list[Message]:
    return [message for number in range(turns) for message in turn(number, size)]


def budget(setting: int | None = None, window: ModelWindow | None = OLLAMA) -> ContextBudget:
    made = ContextBudget(setting)
    made.use_model(window)
    return made


@pytest.mark.parametrize(
    ("setting", "window", "limit"),
    [
        (None, None, None),
        (None, ModelWindow(None), None),
        (None, ModelWindow(200_000), 200_000),
        (None, ModelWindow(None, chosen=True), 32_768),
        (None, ModelWindow(131_072, chosen=True), 32_768),
        (None, ModelWindow(8192, chosen=True), 8192),
        (65_536, ModelWindow(131_072, chosen=True), 65_536),
        (65_536, ModelWindow(8192, chosen=True), 8192),
        (16_000, None, 16_000),
    ],
)
def test_the_limit_is_the_least_of_setting_model_and_what_is_sensible(
    setting: int | None, window: ModelWindow | None, limit: int | None
) -> None:
    assert window_limit(setting, window) == limit


def test_windows_grow_in_steps_and_never_shrink() -> None:
    assert chosen_window(100, 0, 32_768) == 4096
    assert chosen_window(4097, 4096, 32_768) == 8192
    assert chosen_window(100, 8192, 32_768) == 8192
    assert chosen_window(20_000, 8192, 20_000) == 20_000
    assert chosen_window(100, 0, 2048) == 2048


def test_a_growing_conversation_loads_the_model_a_few_times_only() -> None:
    made = budget()
    windows = [made.fit("system", (), history(turns)).context_tokens for turns in range(1, 60)]
    assert windows == sorted(windows, key=lambda size: size or 0)
    assert set(windows) <= {4096, 8192, 16_384, 32_768}


def test_a_window_is_only_asked_for_where_requests_choose_it() -> None:
    assert budget(window=ModelWindow(8192)).fit("system", (), history(1)).context_tokens is None
    assert budget(window=None).fit("system", (), history(1)).context_tokens is None


def test_without_a_known_window_nothing_is_left_out() -> None:
    made = budget(window=None)
    fitted = made.fit("system", (), history(300))
    assert (len(fitted.messages), fitted.left_out, fitted.fits) == (1201, 0, True)
    assert made.line().startswith("context 1")
    assert " of " not in made.line()


def test_old_turns_are_left_out_whole_and_the_system_prompt_stays() -> None:
    made = budget(8192)
    whole = history(40)
    fitted = made.fit("system", (), whole)
    assert fitted.fits
    assert fitted.messages[0] == SystemMessage("system")
    assert fitted.messages[1:] == whole[fitted.left_out :]
    assert isinstance(fitted.messages[1], UserMessage)
    assert messages_tokens(fitted.messages) < 8192 - 2048
    assert f", {fitted.left_out} older messages left out" in made.line()


def test_what_was_left_out_stays_so_for_some_rounds() -> None:
    """So that the provider can use what it cached of the beginning."""
    made = budget(8192)
    left_out = [made.fit("system", (), history(turns)).left_out for turns in range(20, 30)]
    assert len(set(left_out)) < 6
    assert left_out == sorted(left_out)


def test_a_turn_that_is_too_large_keeps_its_question_and_every_pair() -> None:
    made = budget(8192)
    current = [*history(3), UserMessage("now")]
    for number in range(6):
        current += turn(100 + number, 3000)[1:3]
    fitted = made.fit("system", (), current)
    assert fitted.fits
    assert fitted.messages[1] == UserMessage("now")
    ids = [one.result.call_id for one in fitted.messages if isinstance(one, ToolMessage)]
    assert ids == [f"{100 + number}.0" for number in range(6)]
    texts = [one.result.text for one in fitted.messages if isinstance(one, ToolMessage)]
    assert texts[0].startswith("[left out to fit the context: ")
    assert len(texts[-1]) > 5000, "the newest result stays as far as possible"


def test_several_new_results_share_the_space() -> None:
    made = budget(8192)
    fitted = made.fit("system", (), turn(1, 30_000, results=3)[:-1])
    assert fitted.fits
    sizes = [len(one.result.text) for one in fitted.messages if isinstance(one, ToolMessage)]
    assert min(sizes) > 2000


def test_a_question_that_is_too_large_is_sent_and_told() -> None:
    assert not budget(4096).fit("system", (), [UserMessage("word and " * 9000)]).fits


def test_tools_beyond_their_share_are_noticed() -> None:
    tools = [Tool(f"tool_{number}", "It does something. " * 10, {"type": "object"}) for number in range(40)]
    assert budget(8192).tools_take_too_much(tools)
    assert not budget(32_768).tools_take_too_much(tools)
    assert not budget(8192).tools_take_too_much(tools[:20])
    assert not budget(window=None).tools_take_too_much(tools * 100)


def test_a_result_has_at_most_a_part_of_the_window() -> None:
    assert budget(8192).largest_result() == 9830
    assert budget(200_000, ModelWindow(200_000)).largest_result() == 65_536
    assert budget(window=None).largest_result() == 65_536


def test_counts_of_the_provider_correct_the_costs() -> None:
    made = budget(32_768)
    before = made.fit("system", (), history(4)).costs.total
    assert made.counted("ollama", round(before * 1.4)) is None
    assert made.fit("system", (), history(4)).costs.total == pytest.approx(before * 1.4, rel=0.01)


def test_a_cut_prompt_is_told_and_limits_what_follows() -> None:
    made = budget(32_768)
    expected = made.fit("system", (), history(30)).costs.total
    assert expected > 9000
    notice = made.counted("ollama", 4096)
    assert notice is not None
    assert notice.startswith("ollama read 4,096 of about ")
    assert "it cut the beginning of the request, where the system prompt and the tools are" in notice
    after = made.fit("system", (), history(30))
    assert after.costs.total < 4096
    assert after.context_tokens == 4096


@pytest.mark.parametrize(
    ("expected", "counted", "window", "samples", "cut"),
    [
        (1000, 900, 4096, 0, False),
        (12_000, 4096, 4096, 0, True),
        (12_000, 4090, 4096, 1, True),
        (4000, 4096, 4096, 0, False),
        (12_000, 8000, 16_384, 1, True),
        (12_000, 8000, 16_384, 0, False),
        (10_000, 8000, 16_384, 2, False),
        (10_000, 8000, 16_384, 3, True),
        (12_000, 4096, 16_384, 1, True),
        (12_000, 4096, None, 0, True),
        (12_000, 40, 16_384, 1, False),
        (3000, 1100, 4096, 1, False),
    ],
)
def test_a_count_far_below_the_estimate_means_a_cut(
    expected: float, counted: int, window: int | None, samples: int, cut: bool
) -> None:
    """Very small counts come from providers that do not count what they cached."""
    assert was_cut(Counted(expected, counted), None, window=window, samples=samples) is cut


@pytest.mark.parametrize(
    ("before", "now", "cut"),
    [
        ((8000, 8000), (8400, 8192), False),
        ((8400, 8192), (8800, 8192), True),
        ((8400, 8192), (8800, 7900), True),
        ((8400, 8192), (8450, 8192), False),
        ((8400, 8192), (7000, 7000), False),
        ((8400, 8192), (8800, 5000), True),
    ],
)
def test_a_count_that_stands_still_while_the_prompt_grows_means_a_cut(
    before: tuple[float, int], now: tuple[float, int], cut: bool
) -> None:
    assert was_cut(Counted(*now), Counted(*before), window=16_384, samples=5) is cut


def test_counts_without_what_was_cached_teach_nothing() -> None:
    made = budget(32_768)
    before = made.fit("system", (), history(10)).costs.total
    assert made.counted("ollama", 40) is None
    assert made.fit("system", (), history(10)).costs.total == before


def test_the_line_shows_each_part() -> None:
    k = 1024
    line = costs_line(Costs(0.2 * k, 1.4 * k, 1.5 * k), 8192)
    assert line == "context 3.1k of 8k: system 0.2k, tools 1.4k, history 1.5k"
    assert costs_line(Costs(10, 0, 0), None) == "context 0.1k: system 0.1k, tools 0k, history 0k"
    assert costs_line(Costs(0, 0, 0), 131_072, 7) == (
        "context 0k of 128k: system 0k, tools 0k, history 0k, 7 older messages left out"
    )


def test_a_model_with_a_larger_window_gets_the_older_turns_again() -> None:
    planned, messages = budget(window=ModelWindow(4096)), history(20)
    assert planned.fit("system", (), messages).left_out > 0
    planned.use_model(ModelWindow(200_000))
    assert planned.fit("system", (), messages).left_out == 0
