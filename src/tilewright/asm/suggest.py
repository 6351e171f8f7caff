"""Did you mean: the word of a vocabulary that is closest to a misspelt one.

Two words match if deleting up to two characters makes them equal. An index of such shortened words
takes microseconds per look-up, where comparing with every word takes milliseconds, and a mistyped
source needs many.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import combinations, islice

_LONGEST_WORD = 24
_LARGEST_VOCABULARY = 1000


def closest(word: str, vocabulary: Iterable[str]) -> str | None:
    """The word within the fewest edits, at most two (one for up to three letters), or None."""
    if len(word) > _LONGEST_WORD:
        return None
    index = _index(tuple(islice(vocabulary, _LARGEST_VOCABULARY)))
    near = {found for form in _shortened(word.lower()) for found in index.get(form, ())}
    if not near:
        return None
    wanted = word.lower()

    def likeness(known: str) -> tuple[int, bool, float]:
        """Similarity of two words, as a sort key; transposed letters win ties."""
        other = known.lower()
        has_letters = sorted(wanted) == sorted(other)
        return -_edits(wanted, other), has_letters, SequenceMatcher(None, wanted, other).ratio()

    return max(sorted(near), key=likeness)


def _edits(word: str, other: str) -> int:
    """Edit distance by insertions, deletions, replacements and transpositions of letters."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        above, earlier, row = row, before, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(above[j] + 1, row[-1] + 1, above[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and (letter, word[i - 2]) == (other[j - 2], wanted):
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
        before = above
    return row[-1]


def did_you_mean(word: str, vocabulary: Iterable[str]) -> str:
    """The fix that suggests the closest word; empty if there is none."""
    found = closest(word, vocabulary)
    return f"did you mean '{found}'?" if found else ""


def _shortened(word: str) -> set[str]:
    """The word with up to one (for short words) or two characters deleted."""
    edits = 1 if len(word) <= 3 else 2
    return {
        "".join(word[i] for i in kept)
        for count in range(max(len(word) - edits, 1), len(word) + 1)
        for kept in combinations(range(len(word)), count)
    }


@lru_cache(maxsize=64)
def _index(vocabulary: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    index: dict[str, tuple[str, ...]] = {}
    for known in vocabulary:
        if len(known) <= _LONGEST_WORD:
            for form in _shortened(known.lower()):
                index[form] = (*index.get(form, ()), known)
    return index
