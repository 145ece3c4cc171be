"""Times, channels and evidence of an explanation in words. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from anchormoe.evidence import Term
from anchormoe.profiles.examples import Example
from anchormoe.profiles.names import shorten_name, term_words
from anchormoe.profiles.shapes import Usual, duration_words, frequency_words, shape_of

if TYPE_CHECKING:
    from anchormoe.explain.explanation import Explanation, Span, Sum

_REASONS = {
    "low_probability": "no class is likely enough",
    "low_margin": "two classes are too close",
    "conformal": "several classes are possible",
    "out_of_distribution": "values are outside what TRAIN had",
    "channel_missing": "a channel that the model needs is missing",
}
_SHORT = 26


def class_name(state: str) -> str:
    """With the word `class` before a name that is a bare number."""
    return f"class {state}" if state.replace(".", "", 1).isdecimal() else state


def number(value: float) -> str:
    """Four digits, without an exponent where a person would not write one."""
    return f"{value:.4g}" if value == 0 or 1e-4 <= abs(value) < 1e7 else f"{value:.3e}"


def clock(time_ns: int, period_ns: int | None, *, date: bool = False) -> str:
    """UTC; with decimals of a second only where the steps are not whole seconds."""
    fine = 1_000_000_000 if period_ns is None or period_ns % 1_000_000_000 == 0 else period_ns
    unit: Literal["s", "ms", "us", "ns"]
    unit = "s" if fine >= 1_000_000_000 else "ms" if fine >= 1_000_000 else "us" if fine >= 1_000 else "ns"
    day, _, time = str(np.datetime_as_string(np.datetime64(time_ns, "ns"), unit=unit)).partition("T")
    time = time.rstrip("0").rstrip(".") if "." in time else time
    return f"{day} {time}" if date else time


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
    """When and how long: `2026-01-02 03:04:05 to 03:04:17.8 UTC (128 steps of 0.1 s)`."""
    config, start = explanation.config, explanation.origin.start_ns
    if config.period_ns is None:
        return f"{config.length} steps"
    length = f"{config.length} steps of {duration_words(config.period_ns / 1e9)}"
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
    """What a person compares: `rising, 45.2 % against 41 to 43 normal`."""
    channel, part = span.channel, slice(span.start, span.stop)
    values, valid = explanation.window[channel, part].astype(np.float64), explanation.mask[channel, part]
    if not valid.any():
        return "without a value"
    normal = explanation.normal
    usual = Usual(float(normal.low[channel]), float(normal.high[channel]), float(normal.deviation[channel]))
    shape = shape_of(values, valid, usual)
    period_s = None if explanation.config.period_ns is None else explanation.config.period_ns / 1e9
    words = shape.words + (f" {frequency_words(shape.cycles, period_s)}" if shape.cycles else "")
    unit = explanation.config.units[channel]
    known = values[valid]
    now = number(float(known.mean()))
    if shape.words in ("wide variation", "little variation", "spike", "short dip", "dip", "hump", "oscillation"):
        now = f"{number(float(known.min()))} to {number(float(known.max()))}"
    against = f"{number(usual.low)} to {number(usual.high)} normal"
    lead = "" if len(span.term) == 1 else f"{explanation.config.channels[channel]} "
    return f"{lead}{words}, {now}{f' {unit}' if unit else ''} against {against}"


def example_words(explanation: "Explanation", example: Example) -> str:
    """`like normal in pump-003 at 12:00:04 (distance 0.31 σ)`: in TRAIN deviations of the channel."""
    label = class_name(explanation.config.classes[example.label])
    place = f"case {example.case}" if example.recording is None else example.recording
    time = "" if example.start_ns is None else f" at {clock(example.start_ns, explanation.config.period_ns, date=True)}"
    return f"like {label} in {place}{time} (distance {example.distance:.2f} σ)"


def waterfall(explanation: "Explanation", one: "Sum", most: int = _SHORT) -> list[tuple[str, float]]:
    """Context, the strongest spans in the order of their strength, the rest; the values add up to the total."""
    rows = [("context", one.context)]
    rows += [(span_name(explanation, span, most), span.value) for span in one.spans]
    return [*rows, ("everything else", one.remainder)]


def headline(explanation: "Explanation") -> str:
    """State, probability, truth and the sum in one line."""
    predicted = _likely(explanation, explanation.label)
    if explanation.abstention:
        reason = _REASONS.get(explanation.abstention, explanation.abstention)
        predicted = f"unknown ({reason}); most probable: {predicted}"
    truth = "" if explanation.truth is None else f", true class {class_name(explanation.truth)}"
    logit, context = explanation.logit, explanation.context
    return f"{predicted}{truth};  score {logit:+.3f} = context {context:+.3f} evidence {logit - context:+.3f}"


def sentence(explanation: "Explanation") -> str:
    """What a person at three in the morning needs: the state, why, and why not the runner-up."""
    text = _likely(explanation, explanation.label)
    if explanation.abstention:
        text = f"unknown, {_REASONS.get(explanation.abstention, explanation.abstention)}; nearest {text}"
    speaking = _strongest_terms(explanation, explanation.score)[:2]
    facts = [f"{channels_of(explanation, span.term)}: {compare_with_normal(explanation, span)}" for span in speaking]
    text += f" because of {'; and '.join(facts)}" if facts else ""
    if explanation.runner_up != explanation.label:
        text += f". Not {_likely(explanation, explanation.runner_up)}"
        against = [
            channels_of(explanation, span.term) for span in _strongest_terms(explanation, explanation.margin)[:2]
        ]
        text += f", mainly by {' and '.join(against)}" if against else ""
    gone = [explanation.config.channels[one] for one, share in explanation.missing.items() if share > 0.5]
    return text + (f". No data from {_list(gone)}." if gone else ".")


def _strongest_terms(explanation: "Explanation", one: "Sum") -> "list[Span]":
    """The strongest span that speaks for the class, of each term."""
    found: dict[Term, Span] = {}
    for span in one.spans:
        if span.value > 0:
            found.setdefault(span.term, span)
    return list(found.values())


def _likely(explanation: "Explanation", label: int) -> str:
    return f"{class_name(explanation.config.classes[label])} ({explanation.probabilities[label]:.1%})"


def _list(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
