"""Readable names for experts, made of what they look at; the same facts give the same names. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from anchormoe.profiles.profile import ExpertProfile
from anchormoe.profiles.shapes import FAMILIES, OSCILLATION, frequency_words

_LONGEST_CHANNEL = 60
_MAIN = 0.5
"""A channel with this share of an expert's evidence is named, and so are two that have more than the next limit."""
_TWO = 0.7
_SPREAD = 0.25
"""An expert whose first channel has less speaks in many; to name one of them would mislead."""
_CLEARLY = 0.5
"""A class is in the name of an expert that adds more than this share of all it adds to it."""
_ALIKE = 0.6
"""Least similarity of channels and classes, from 0 to 1, for an expert to be that of an earlier bundle."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the numbers in profiles stand for."""

    channels: tuple[str, ...]
    classes: tuple[str, ...]
    period_s: float | None


@dataclass(frozen=True, slots=True)
class NamedBefore:
    """The experts of an earlier bundle, whose names are kept where the expert is the same."""

    experts: tuple[ExpertProfile, ...]
    vocabulary: Vocabulary


def with_titles(
    experts: Sequence[ExpertProfile], vocabulary: Vocabulary, before: NamedBefore | None = None
) -> tuple[ExpertProfile, ...]:
    """Unique titles: what an expert looks at, with the class it speaks for, then a number, where two are alike."""
    kept = {} if before is None else _keep(experts, vocabulary, before)
    taken, titles = set(kept.values()), dict(kept)
    order = sorted((at for at in range(len(experts)) if at not in kept), key=lambda at: (-experts[at].share, at))
    plain = {at: _describe(experts[at], vocabulary) for at in order}
    count: dict[str, int] = {}
    for title in plain.values():
        count[title] = count.get(title, 0) + 1
    for at in order:
        title = plain[at]
        if count[title] > 1 or title in taken:
            title += _speaks_for(experts[at], vocabulary)
        titles[at] = _first_free(title, taken)
        taken.add(titles[at])
    return tuple(replace(expert, title=titles[at]) for at, expert in enumerate(experts))


def term_words(channels: Sequence[int], count: int, names: Sequence[str]) -> str:
    """`flow`, `flow + pressure together`, `all 6 channels together`."""
    shown = [_cut(names[channel]) for channel in channels]
    if count == 1:
        return shown[0]
    if count > 3:
        return f"{'all ' if count == len(names) else ''}{count} channels together"
    return f"{' + '.join(shown)} together"


def shape_words(expert: ExpertProfile, period_s: float | None) -> str:
    """`oscillation near 0.4 Hz`, `level above normal`."""
    if expert.shape == OSCILLATION and expert.cycles is not None:
        return f"{OSCILLATION} {frequency_words(expert.cycles, period_s)}"
    return expert.shape


def shorten_name(name: str, most: int = 26) -> str:
    """Both ends of a long name: plants tell tags apart by their beginning and their end."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-(most - most // 2) :]}"


def family_of(name: str) -> str:
    """The family that an internal name such as `kernel/level` says; empty for others."""
    last = name.rpartition("/")[2].replace("_", " ")
    return last if last in FAMILIES else ""


def _describe(expert: ExpertProfile, vocabulary: Vocabulary) -> str:
    shape = shape_words(expert, vocabulary.period_s)
    terms = expert.terms
    if not terms:
        return shape
    if terms[0].share < _SPREAD:
        return f"{family_of(expert.name) or shape} in many channels"
    main = [term_words(term.channels, term.count, vocabulary.channels) for term in terms]
    if terms[0].share >= _MAIN:
        return f"{shape} in {main[0]}"
    if len(terms) > 1 and terms[0].share + terms[1].share >= _TWO:
        return f"{shape} in {main[0]} and {main[1]}"
    return f"{shape}, most in {main[0]}"


def _speaks_for(expert: ExpertProfile, vocabulary: Vocabulary) -> str:
    known = [(value, -at) for at, value in enumerate(expert.support) if value is not None and value > 0]
    if not known or max(known)[0] <= _CLEARLY * sum(value for value, _ in known):
        return ""
    return f" for {_cut(vocabulary.classes[-max(known)[1]])}"


def _first_free(title: str, taken: set[str]) -> str:
    numbered = (f"{title} ({number})" if number > 1 else title for number in range(1, len(taken) + 2))
    return next(one for one in numbered if one not in taken)


def _keep(experts: Sequence[ExpertProfile], vocabulary: Vocabulary, before: NamedBefore) -> dict[int, str]:
    """The best pairs first; an expert of another shape is another expert."""
    pairs = [
        (_similarity(expert, vocabulary, old, before.vocabulary), -at, -place)
        for at, expert in enumerate(experts)
        for place, old in enumerate(before.experts)
        if expert.shape == old.shape and family_of(expert.name) == family_of(old.name)
    ]
    kept: dict[int, str] = {}
    used: set[int] = set()
    for likeness, at, place in sorted(pairs, reverse=True):
        if likeness >= _ALIKE and -at not in kept and -place not in used:
            kept[-at] = before.experts[-place].title
            used.add(-place)
    return kept


def _similarity(expert: ExpertProfile, own: Vocabulary, old: ExpertProfile, other: Vocabulary) -> float:
    """0 to 1: by the channels they share, weighed three times, and the classes they speak for."""
    here, there = _term_shares(expert, own), _term_shares(old, other)
    channels = sum(min(share, there.get(term, 0.0)) for term, share in here.items())
    whole = max(sum(here.values()), sum(there.values()), 1e-12)
    return (3 * channels / whole + _class_likeness(expert, own, old, other)) / 4


def _term_shares(expert: ExpertProfile, vocabulary: Vocabulary) -> dict[tuple[str, ...], float]:
    return {tuple(vocabulary.channels[one] for one in term.channels): term.share for term in expert.terms}


def _class_likeness(expert: ExpertProfile, own: Vocabulary, old: ExpertProfile, other: Vocabulary) -> float:
    here = dict(zip(own.classes, expert.support, strict=True))
    there = dict(zip(other.classes, old.support, strict=True))
    names = sorted(set(here) | set(there))
    a, b = (np.array([of.get(name) or 0.0 for name in names]) for of in (here, there))
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return max(0.0, float(a @ b) / lengths) if lengths > 0 else 0.0


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST_CHANNEL else f"{name[: _LONGEST_CHANNEL - 1]}…"
