"""Times, channels and evidence of an explanation in words. Pure."""

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Literal

import numpy as np

from anchormoe.evidence import Term
from anchormoe.model.reasons import REASONS, short_reason
from anchormoe.profiles.examples import Example
from anchormoe.profiles.names import shorten_name, term_words
from anchormoe.profiles.shapes import Usual, frequency_words, shape_of
from anchormoe.windows import step_words

if TYPE_CHECKING:
    from anchormoe.explain.explanation import Explanation, Span, Sum

_SHORT = 26
_DIGITS = (4, 5, 6)
_NOTHING = 0.001
"""Of the usual range: a value about zero that is less is written as 0."""
FINDING_WORDS = {
    "sentinel": "a code instead of a value",
    "frozen": "a flat line",
    "jump": "a jump away and back",
    "range": "far outside what the model has learnt",
    "noise": "a signal without its noise",
}
"""What samples look like that cannot be measurements."""
_LEVELS = ("level above normal", "level below normal", "usual level")
"""Shapes that are told by their mean; of all others, which move, it says nothing: they are told by their range."""
_EPOCH = "1970-"
_DAY_NS = 86_400_000_000_000
_UNLIKE = 1.5
"""A TRAIN segment that is so much further away than two of them usually are is no example."""


def class_name(state: str) -> str:
    """With the word `class` before a name that is a bare number."""
    return f"class {state}" if state.replace(".", "", 1).isdecimal() else state


def number(value: float, digits: int = _DIGITS[0]) -> str:
    """Four digits, without an exponent where a person would not write one."""
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0:
        return "0"
    if not 1e-4 <= abs(rounded) < 1e7:
        return f"{value:.{digits - 1}e}"
    text = f"{Decimal(repr(rounded)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def beside(values: Sequence[float], low: float, high: float) -> tuple[list[str], str]:
    """Values, and `low to high` beside them: with the digits that it takes to see where the values are.

    A mean of values on both sides of zero is nothing that a person compares: next to nothing is 0.
    """
    nothing = _NOTHING * (high - low)
    values = [0.0 if low < 0 < high and abs(value) < nothing else value for value in values]
    pairs = [(value, bound) for value in values for bound in (low, high) if value != bound]
    apart = (digits for digits in _DIGITS if all(number(a, digits) != number(b, digits) for a, b in pairs))
    digits = next(apart, _DIGITS[0])
    return [number(value, digits) for value in values], f"{number(low, digits)} to {number(high, digits)}"


def add_up(parts: Sequence[float], total: float, *, places: int = 4) -> tuple[list[str], str]:
    """Parts and their total as decimals that add up as they are written: the last part has the rounding.

    Very small sums have more places, very large ones none.
    """
    largest = max(map(abs, (*parts, total)))
    if largest and not 10.0 ** (2 - places) <= largest < 1e6:
        places = min(max(5 - math.floor(math.log10(largest)), 0), 22)
    one = Decimal(1).scaleb(-places)
    with localcontext(prec=400):
        whole = Decimal(total).quantize(one) + 0
        rounded = [Decimal(part).quantize(one) + 0 for part in parts]  # -0 is 0
        rounded[-1] += whole - sum(rounded, Decimal(0))
    return [f"{part:+f}" for part in rounded], f"{whole:+f}"


def percent(share: float) -> str:
    """Never 100 % or 0 % where it is not exactly so."""
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{100 * share:.1f} %"


def clock(time_ns: int, period_ns: int | None, *, date: bool = False) -> str:
    """UTC; with decimals of a second only where the steps are not whole seconds."""
    fine = 1_000_000_000 if period_ns is None or period_ns % 1_000_000_000 == 0 else period_ns
    unit: Literal["s", "ms", "us", "ns"]
    unit = "s" if fine >= 1_000_000_000 else "ms" if fine >= 1_000_000 else "us" if fine >= 1_000 else "ns"
    day, _, time = str(np.datetime_as_string(np.datetime64(time_ns, "ns"), unit=unit)).partition("T")
    time = time.rstrip("0").rstrip(".") if "." in time else time
    return f"{day} {time}" if date else time


def recorded(time_ns: int, period_ns: int | None) -> str:
    """Where in a recording: ` at 2026-01-02 03:04:05`; one whose times count from zero has no date."""
    at = clock(time_ns, period_ns, date=True)
    if not at.startswith(_EPOCH):
        return f" at {at}"
    days = time_ns // _DAY_NS
    return f", {f'{days} d ' if days else ''}{clock(time_ns, period_ns)} after its start"


def when(explanation: "Explanation", start: int, stop: int) -> str:
    """`02:14:05 to 02:14:09`, `3.2 to 6.4 s`, `steps 12 to 31`, or the whole window."""
    config, origin = explanation.config, explanation.origin
    if start == 0 and stop == config.length:
        return "whole window"
    if config.period_ns is None:
        return f"steps {start} to {stop - 1}"
    if origin.start_ns is None:
        return f"{number(start * config.period_ns / 1e9)} to {number(stop * config.period_ns / 1e9)} s"
    first, last = (origin.start_ns + step * config.period_ns for step in (start, stop))
    days = clock(first, None, date=True)[:10] != clock(last, None, date=True)[:10]
    return f"{clock(first, config.period_ns, date=days)} to {clock(last, config.period_ns, date=days)}"


def window_words(explanation: "Explanation") -> str:
    """When and how long: `2026-01-02 03:04:05 to 03:04:17.8 UTC (128 steps, a step every 0.1 s)`."""
    config, start = explanation.config, explanation.origin.start_ns
    if config.period_ns is None:
        return f"{config.length} steps"
    length = f"{config.length} steps, {step_words(config.period_ns / 1e9)}"
    if start is None:
        return length
    end = start + config.length * config.period_ns
    day = clock(start, None, date=True)[:10] != clock(end, None, date=True)[:10]
    return f"{clock(start, config.period_ns, date=True)} to {clock(end, config.period_ns, date=day)} UTC ({length})"


def channels_of(explanation: "Explanation", term: Term) -> str:
    return term_words(term, len(term), explanation.config.channels)


def span_name(explanation: "Explanation", span: "Span", most: int = _SHORT) -> str:
    """`flow, 02:14:05 to 02:14:09`, with long names shortened."""
    names = [shorten_name(name, most) for name in explanation.config.channels]
    return f"{term_words(span.term, len(span.term), names)}, {when(explanation, span.start, span.stop)}"


def compare_with_normal(explanation: "Explanation", span: "Span") -> str:
    """What a person compares: `level above normal, 45.2 % against 41 to 43 normal`."""
    channel, part = span.channel, slice(span.start, span.stop)
    values, valid = explanation.window[channel, part].astype(np.float64), explanation.mask[channel, part]
    if not valid.any():
        lost = any(one.channel == channel for one in explanation.findings)
        return "no value that can be right; its usual value stands in" if lost else "without a value"
    normal = explanation.normal
    usual = Usual(float(normal.low[channel]), float(normal.high[channel]), float(normal.deviation[channel]))
    shape = shape_of(values, valid, usual, span.family)
    period_s = None if explanation.config.period_ns is None else explanation.config.period_ns / 1e9
    words = shape.words + (f" {frequency_words(shape.cycles, period_s)}" if shape.cycles else "")
    known = values[valid]
    moving = shape.words not in _LEVELS
    told = [known.min(), known.max()] if moving else [known.mean()]
    texts, between = beside([float(one) for one in told], usual.low, usual.high)
    against = f"against {between} {'in TRAIN' if normal.label is None else 'normal'}"
    if moving:  # ends of a peak are no match for where nine of ten values are
        all_of = "values in TRAIN" if normal.label is None else "normal values"
        against = f"where 90 % of {all_of} are {between}"
    lead = "" if len(span.term) == 1 else f"{explanation.config.channels[channel]} "
    return f"{lead}{words}, {_with_unit(' to '.join(texts), explanation.config.units[channel])} {against}"


def _with_unit(value: str, unit: str) -> str:
    return f"{value} {unit}" if has_name(unit) else value


def has_name(unit: str) -> bool:
    """Not that of a plain number."""
    return unit.strip() not in ("", "1")


def example_words(explanation: "Explanation", example: Example) -> str:
    """`like normal in pump-003 at 12:00:04, distance 0.31`."""
    label = class_name(explanation.config.classes[example.label])
    place = f"case {example.case}" if example.recording is None else example.recording
    time = "" if example.start_ns is None else recorded(example.start_ns, explanation.config.period_ns)
    where = f"{label} in {place}{time}, distance {example.distance:.2f}"
    return f"nothing alike; nearest is {where}" if example.distance > _UNLIKE else f"like {where}"


def written_sum(one: "Sum", *, places: int = 4) -> tuple[list[str], str]:
    """Its context, spans and remainder as decimals that add up to the last one; the remainder has the rounding."""
    parts = [one.context, *(span.value for span in one.spans), one.remainder]
    return add_up(parts, one.total, places=places)


def waterfall(explanation: "Explanation", one: "Sum", most: int = _SHORT) -> list[tuple[str, float]]:
    """Context, the strongest spans in the order of their strength, the rest; the values add up to the total."""
    rows = [("context", one.context)]
    rows += [(span_name(explanation, span, most), span.value) for span in one.spans]
    return [*rows, ("everything else", one.remainder)]


def headline(explanation: "Explanation") -> str:
    """State, probability, truth and the sum in one line."""
    predicted = _likely(explanation, explanation.label)
    if explanation.abstention:
        predicted = f"unknown ({short_reason(explanation.abstention)}); most probable: {predicted}"
    truth = "" if explanation.truth is None else f", true class {class_name(explanation.truth)}"
    logit, context = explanation.logit, explanation.context
    (base, evidence), score = add_up([context, logit - context], logit, places=3)
    return f"{predicted}{truth};  score {score} = context {base} evidence {evidence}"


def sentence(explanation: "Explanation") -> str:
    """What a person at three in the morning needs: the state, why, and why not the runner-up."""
    text = _likely(explanation, explanation.label)
    if explanation.abstention:
        outside = f" ({'; '.join(outside_words(explanation))})" if explanation.outside else ""
        text = f"unknown: {short_reason(explanation.abstention)}{outside}; nearest {text}"
    speaking = _strongest_terms(explanation, explanation.score)[:2]
    facts = [f"{channels_of(explanation, span.term)}: {compare_with_normal(explanation, span)}" for span in speaking]
    text += f" because of {'; and '.join(facts)}" if facts else ""
    if explanation.runner_up != explanation.label:
        text += f". Not {_likely(explanation, explanation.runner_up)}"
        against = [
            channels_of(explanation, span.term) for span in _strongest_terms(explanation, explanation.margin)[:2]
        ]
        text += f", mainly by {' and '.join(against)}" if against else ""
    lost = {one.channel for one in explanation.findings}
    gone = {one: share for one, share in explanation.missing.items() if share > 0.5 and one not in lost}
    how_much = "No" if min(gone.values(), default=1.0) == 1 else "Little or no"
    names = [explanation.config.channels[one] for one in gone]
    text += f". {how_much} data from {_list(names)}." if gone else "."
    if unused := unused_words(explanation):
        text += f" Not used: {_list(unused)}."
    return f"{text} {advice}" if (advice := what_to_do(explanation)) else text


def outside_words(explanation: "Explanation") -> list[str]:
    """`flow 71.9 m³/h, in training 38.3 to 62.7` for each channel that made the window unlike the training data."""
    channels, units, told = explanation.config.channels, explanation.config.units, []
    for one in explanation.outside:
        [value], between = beside([one.value], one.low, one.high)
        told.append(f"{channels[one.channel]} {_with_unit(value, units[one.channel])}, in training {between}")
    return told


def unused_words(explanation: "Explanation") -> list[str]:
    """`flow (sentinel -9999)` for each channel of which the model did not get some samples."""
    found = {one.channel: f"{one.kind} {number(one.value, _DIGITS[-1])}" for one in reversed(explanation.findings)}
    return [f"{explanation.config.channels[one]} ({words})" for one, words in sorted(found.items())]


def what_to_do(explanation: "Explanation") -> str:
    """Of an `unknown`: what it means, what to look at and what to do."""
    known = REASONS.get(explanation.abstention or "")
    if known is None:
        return ""
    end = "" if known.look_at.endswith("?") else "."
    return f"{_upper(known.means)}. {_upper(known.look_at)}{end} {_upper(known.remedy)}."


def _upper(words: str) -> str:
    """`capitalize` would lower the rest."""
    return words[:1].upper() + words[1:]


def _strongest_terms(explanation: "Explanation", one: "Sum") -> "list[Span]":
    """The strongest span that speaks for the class, of each term."""
    found: dict[Term, Span] = {}
    for span in one.spans:
        if span.value > 0:
            found.setdefault(span.term, span)
    return list(found.values())


def _likely(explanation: "Explanation", label: int) -> str:
    return f"{class_name(explanation.config.classes[label])} ({percent(float(explanation.probabilities[label]))})"


def _list(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
