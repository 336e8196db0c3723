"""Lists lines that have a symbol's name as possible uses, while no language server can answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lm_tools_bridge.code_intelligence.freshness import Freshness, FreshnessState
from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tools.symbols.symbol_names import name_query
from lm_tools_bridge.code_intelligence.tools.texts import Texts
from lm_tools_bridge.code_intelligence.tools.word_check.checking import UNANSWERED, limited
from lm_tools_bridge.code_intelligence.tools.word_check.comparison import Comparison, compare
from lm_tools_bridge.code_intelligence.tools.word_check.project_words import find_project_words, is_word
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace


@dataclass(frozen=True, slots=True)
class UnansweredWords:
    """The lines of code with a name, all of them possible uses, and why no server says more."""

    comparison: Comparison
    freshness: Freshness


async def find_unanswered_words(
    workplace: Workplace, arguments: Mapping[str, Any], doubts: Sequence[Freshness], texts: Texts
) -> UnansweredWords | None:
    """The lines with the name of a call's symbol.

    Args:
        workplace: where to search.
        arguments: those of the call.
        doubts: why no server answered, or may answer otherwise later.
        texts: the files read by this call.

    Returns:
        None if servers did answer, the call has no name, or the user wants no words.
    """
    word = _word_of(arguments)
    names = list(dict.fromkeys(each.provider for each in doubts))
    kinds = await asyncio.to_thread(lambda: [workplace.servers.find(name) for name in names])
    doubtful = [kind.specification if isinstance(kind, Unavailable) else kind for kind in kinds if kind]
    if not doubtful or not workplace.compares_words or not is_word(word):
        return None
    # the same files are searched once, whatever the number of their servers
    by_languages = {frozenset(kind.languages): kind for kind in doubtful}.values()
    comparisons = [await _comparison(workplace, word, kind, texts) for kind in by_languages]
    comparison = replace(
        comparisons[0],
        in_text=sum(each.in_text for each in comparisons),
        quoted=sum(each.quoted for each in comparisons),
        missing=[file for each in comparisons for file in each.missing],
        has_all_words=all(each.has_all_words for each in comparisons),
    )
    if not comparison.missing:
        return None
    reason = "; ".join(dict.fromkeys(each.reason for each in doubts if each.reason))
    has_crashed = any(each.state == "crashed" for each in doubts)  # a second try follows
    state: FreshnessState = "crashed" if has_crashed else "partial"
    unanswered = Freshness(", ".join(names), state, reason or UNANSWERED)
    return UnansweredWords(comparison, limited(unanswered, comparison, workplace))


def _word_of(arguments: Mapping[str, Any]) -> str:
    """The last part of the symbol's name; empty if the call gives a place only."""
    try:
        return name_query(str(arguments.get("symbol") or "")).literal
    except ValueError:
        return ""


async def _comparison(workplace: Workplace, word: str, kind: ServerSpecification, texts: Texts) -> Comparison:
    words = await find_project_words(workplace, word, kind, "utf-16", texts)
    return compare(word, words.words, {}, {}, has_all_words=words.has_all, unasked=UNANSWERED)
