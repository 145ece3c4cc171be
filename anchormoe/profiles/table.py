"""Expert profiles as rows of text, for the model card and the terminal. Pure."""

from collections.abc import Sequence

from anchormoe.profiles.names import Vocabulary, shape_words, term_words
from anchormoe.profiles.profile import ExpertProfile, ExpertProfiles

COLUMNS = ("expert", "looks at", "speaks for (against)", "share", "chosen", "right", "internal name")
_TERMS, _CLASSES = 3, 2


def profile_rows(profiles: ExpertProfiles, vocabulary: Vocabulary, most: int = 40) -> list[list[str]]:
    """Under COLUMNS, those with the most evidence first; beyond `most` one row counts the others."""
    order = sorted(profiles.experts, key=lambda one: -one.share)
    rows = [_row(expert, vocabulary) for expert in order[:most]]
    rest = order[most:]
    total = f"{sum(one.share for one in rest):.0%}"
    return rows + ([[f"{len(rest)} others", "", "", total, "", "", ""]] if rest else [])


def judged_words(profiles: ExpertProfiles) -> str:
    """What the columns mean."""
    judged = next((one.judged for one in profiles.experts), "TRAIN")
    return (
        "share: of all evidence; chosen: share of the units that routing gave it; right: share of what it added to a "
        f"class that it added in windows whose answer was right ({judged})"
    )


def _row(expert: ExpertProfile, vocabulary: Vocabulary) -> list[str]:
    where = [
        f"{term_words(term.channels, term.count, vocabulary.channels)} {term.share:.0%}"
        for term in expert.terms[:_TERMS]
    ]
    return [
        expert.title,
        f"{shape_words(expert, vocabulary.period_s)}: {', '.join(where)}" if where else expert.shape,
        _speaks(expert, vocabulary.classes),
        f"{expert.share:.0%}",
        "always" if expert.chosen is None else f"{expert.chosen:.0%}",
        "–" if expert.right is None else f"{expert.right:.0%}",
        expert.name,
    ]


def _speaks(expert: ExpertProfile, classes: Sequence[str]) -> str:
    """The classes that it adds most to, and those that it takes from, in windows that are called so."""
    known = [(value, classes[at]) for at, value in enumerate(expert.support) if value is not None]
    by_value = sorted(known, key=lambda pair: -pair[0])
    supports = [f"{name} {value:+.2f}" for value, name in by_value[:_CLASSES] if value > 0]
    opposes = [f"{name} {value:+.2f}" for value, name in by_value[::-1][:_CLASSES] if value < 0]
    return ", ".join(supports) + (f" ({', '.join(opposes)})" if opposes else "")
