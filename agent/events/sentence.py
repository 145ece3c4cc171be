"""One sentence for the operator, made of an event's own facts: the same event always gives the same text. Pure.

Times are in UTC. Every name is printable and of limited length, whatever a bundle or a record calls its channels.
"""

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from connectors.printable import printable
from connectors.timestamps import NS_PER_S, parse_iso

LONGEST = 500
_LONGEST_NAME, _LONGEST_UNIT = 40, 16
_CHANNELS = 2
_MISSING = 3
_LONG_WINDOW_S, _SHORT_WINDOW_S = 7200, 10
_FRACTIONS = ((0.1, 3), (1e-4, 6))
"""Length of a window from which on so many decimals of a second tell its steps apart."""
_DIGITS = (3, 4, 5, 6)
_EPOCH = "1970-"
_DAY_S = 86_400
_ABOUT_ZERO = 0.1
"""A mean of at most this share of the usual range is zero for a person."""
_NOTHING = 0.001
"""A mean of less than this share of the usual range is written as 0."""
_OFF = 0.25
"""Of a difference: what rounding may change each of the two numbers by."""
_WIDER = 1.5
"""As in `agent.events.comparison`."""
_USUAL_SHAPES = ("usual", "change", "level")
"""Beginnings of what `anchormoe.profiles.shapes` says that adds nothing to a value that is as usual."""
_UNKNOWN = {
    "internal": "the agent failed on this window; its log says why, and it goes on with the next one",
    "history_lost": "records of this window were deleted from the log before they were read; new data end this",
}
"""Why a window is `unknown` where the model was not asked, and what ends it."""

Json = Mapping[str, Any]


def state_sentence(data: Json) -> str:
    """Of the data of a state event: the value now against normal, what it speaks for, and the runner-up."""
    alone = data["window"].get("unsettled")
    if alone is not None:  # the state is held against what this window says
        said = dict(data) | {"abstention": alone["abstention"], "window": {**data["window"], "unsettled": None}}
        text = f"{_held(data)}; this window alone: {state_sentence(said)}"
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    if data["abstention"]:
        text = f"unknown: {_reason(data)}"
    else:
        text = _as_usual(data) if _is_normal(data) else _speaks(data) + _like(data)
    if data["abstention"] not in ("channel_missing", "low_coverage"):
        text += _missing(data, before="; little or no data from ")
    if data["abstention"] != "implausible_values":
        text += _implausible(data, before="; not used: ")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _held(data: Json) -> str:
    """Windows before may change the state in spite of what this one says."""
    state = _class_name(data["state"])
    return f"still {state}" if data.get("previous_state", data["state"]) == data["state"] else f"now {state}"


def _speaks(data: Json) -> str:
    facts = _facts(data)
    return f"{facts}; speaks for {_candidates(data)}" if facts else _candidates(data)


def _is_normal(data: Json) -> bool:
    """By what the window says, which may not be the state that is held."""
    evidence = data["evidence"]
    return evidence is not None and evidence["class"] == evidence["compared_with"]


def _as_usual(data: Json) -> str:
    """Of a normal state: that values are as usual is what speaks for it; one that is not is told."""
    rows = [row for row in data["evidence"]["channels"] if row["contribution"] is not None and row["mean"] is not None]
    usual = [row for row in rows if row["contribution"] > 0 and row["direction"] == "within"]
    odd = [row for row in rows if row["direction"] not in (None, "within", "narrower") and not _moves_as_usual(row)]
    text = _candidates(data)
    if usual:
        text += f"; as usual: {', '.join(_value(row) for row in usual[:_CHANNELS])}"
    return f"{text}; although {_compare(odd[0], data)}" if odd else text


def _value(row: Json) -> str:
    spread = row.get("deviation")
    swings = row["normal"] is not None and _swings(row)
    now = _number(row["mean"]) if spread is None or not swings else f"±{_number(spread)}"
    return f"{_name(row['name'])} {now}{_unit(row['unit'])}"


def _reason(data: Json) -> str:
    """What a person can act on."""
    reason, classes = data["abstention"] or "", data["classes"]
    if reason == "low_coverage":
        share = f"only {_percent(data['window']['coverage'])} of the values arrived"
        if "previous_state" in data and data["previous_state"] is None:  # every asset begins like this
            return f"{share} so far; the first state follows with more data"
        return f"{share}; check the sensors and the connection{_missing(data, before=': little or no data from ')}"
    if reason == "channel_missing":
        return f"the model needs channels that are missing{_missing(data, before=': ')}; check these sensors"
    if reason == "implausible_values":
        return f"values that cannot be right{_implausible(data, before=': ')}; check these sensors"
    if not classes:
        return _UNKNOWN.get(reason, _words(reason))
    if reason == "out_of_distribution":
        facts = _outside(data) or _facts(data, outside=True)
        where = f": {facts}" if facts else ""
        return f"values outside what the model has learnt{where}; check these sensors, or train with such recordings"
    if reason == "low_probability":
        advice = "wait for more data, or train with recordings of this state"
        return f"no state is likely enough; nearest {_candidates(data)}{_because(data)}; {advice}"
    if reason in ("low_margin", "conformal"):
        why = "too close to tell apart" if reason == "low_margin" else "both possible"
        two = f"{_score(classes[0])} and {_score(classes[1])} are {why}"
        return f"{two}{_because(data)}; wait for more data, or train with more recordings of both"
    return f"{_words(reason)}; nearest {_candidates(data)}"


def _outside(data: Json) -> str:
    """The channels that made the window unlike the training data, with a value and what was usual there."""
    return "; ".join(map(_outside_words, data["window"].get("outside_training", ())[:_CHANNELS]))


def _outside_words(one: Json) -> str:
    """With so many digits that the value is outside of what was usual as it is written, too."""
    numbers = one["low"], one["value"], one["high"]
    for digits in _DIGITS:
        low, value, high = (_number(number, digits) for number in numbers)
        if value not in (low, high):
            break
    return f"{_name(one['channel'])} {value}{_unit(one.get('unit', ''))}, in training {low} to {high}"


def _like(data: Json) -> str:
    """Where the strongest span that speaks for the class was seen before; nothing where nothing is like it."""
    spans = (data["evidence"] or {}).get("spans", ())
    for one in data.get("similar") or ():
        if one["distance"] < 1 and spans[one["span"]]["contribution"] > 0:
            where = f"case {one['case']}" if one["recording"] is None else _name(one["recording"])
            return f"; most like {where}{_recorded(one['start'])} ({_class_name(one['class'])})"
    return ""


def _recorded(start: str | None) -> str:
    """A recording whose times count from zero has no date; no plant has data of 1970."""
    if start is None:
        return ""
    date, _, clock = start[:19].partition("T")
    if date.startswith(_EPOCH):
        days = (parse_iso(f"{date}T00:00:00Z") // NS_PER_S) // _DAY_S
        return f", {f'{days} d ' if days else ''}{clock} after its start"
    return f" at {date} {clock}"


def _because(data: Json) -> str:
    facts = _facts(data)
    return f"; {facts}" if facts else ""


def _candidates(data: Json) -> str:
    classes = data["classes"]
    if not classes:
        return _class_name(data["state"])
    return ", runner-up ".join(_score(one) for one in classes[:2])


def _score(row: Json) -> str:
    """Nothing is quite certain and nothing quite impossible, also where the probability came rounded."""
    share = row["probability"]
    likely = "> 99 %" if share > 0.99 else "< 1 %" if share < 0.01 else _percent(share)
    return f"{_class_name(row['class'])} ({likely})"


def _facts(data: Json, *, outside: bool = False) -> str:
    """The channels that speak for the class, strongest first; or those that are outside their normal range."""
    evidence = data["evidence"]
    if evidence is None:
        return ""
    rows = evidence["channels"]
    if outside:
        chosen = [row for row in rows if row["direction"] not in (None, "within", "narrower")]
        return "; ".join(_compare(row, data) for row in chosen[:_CHANNELS])
    alone = [row for row in rows if row["contribution"] is not None]
    speaking = sorted((row for row in alone if row["contribution"] > 0), key=lambda row: -row["contribution"])
    if speaking:
        return "; ".join(_compare(row, data) for row in speaking[:_CHANNELS])
    if rows and not alone:
        far = "furthest from normal" if evidence["compared_with"] else "furthest from the training data"
        return f"several channels together, {far}: {_compare(max(rows, key=_distance), data)}"
    return _when(evidence, data)


def _distance(row: Json) -> float:
    """How far the mean is from what is usual, in usual ranges; the first of several that are as far is told."""
    normal = row["normal"]
    if row["mean"] is None or normal is None:
        return -1.0
    width: float = normal["high"] - normal["low"]
    away: float = abs(row["mean"] - normal["mean"])
    return away / width if width > 0 else math.inf if away else 0.0


def _when(evidence: Json, data: Json) -> str:
    """Where no channel speaks for the class in all: the strongest span that does."""
    spans = [span for span in evidence["spans"] if span["contribution"] > 0]
    if not spans:
        return ""
    names = f"{', '.join(map(_name, spans[0]['channels'][:_CHANNELS]))} from " if spans[0]["channels"] else ""
    return f"{names}{_clock(spans[0]['start'], data)} to {_clock(spans[0]['end'], data)} UTC"


def _compare(row: Json, data: Json) -> str:
    name, unit, normal = _name(row["name"]), _unit(row["unit"]), row["normal"]
    if row["mean"] is None:
        return f"{name} without a value"
    if normal is None:
        return f"{name} {_number(row['mean'])}{unit}"
    spread, usual_spread = row.get("deviation"), normal.get("deviation")
    if spread is not None and usual_spread is not None and _swings(row):
        now, usual = _distinct(spread, usual_spread)
        if spread == 0:
            return f"{name} does not vary at all, ±{usual}{unit} {_reference(data)}"
        if shape := _shape(row, data):
            return f"{name} {shape} (±{_number(spread)}{unit}, in its usual range)"
        return f"{name} varies by ±{now}{unit} against ±{usual}{unit} {_reference(data)}{_direction(row, data)}"
    if row["direction"] in ("wider", "narrower"):
        how = "more" if row["direction"] == "wider" else "less"
        low, high = _distinct(row["min"], row["max"])
        return f"{name} between {low} and {high}{unit}, varying {how} than {_reference(data)}"
    outside = row["direction"] in ("above", "below")
    mean = row["mean"] if outside else _or_zero(row["mean"], normal)
    now, usual = _distinct(mean, _or_zero(normal["mean"], normal))
    if shape := _shape(row, data):
        return f"{name} {shape} ({_number(row['mean'])}{unit}, in its usual range)"
    return f"{name} {now}{unit} against {usual}{unit} {_reference(data)}{_direction(row, data)}"


def _shape(row: Json, data: Json) -> str:
    """Where the values are as usual, what their course looks like says more; empty where that is usual, too."""
    if row["direction"] != "within":
        return ""
    spans = data["evidence"]["spans"]
    shapes = [one.get("shape") for one in data.get("similar") or () if spans[one["span"]]["channels"] == [row["name"]]]
    return next((shape for shape in shapes if shape and not shape.startswith(_USUAL_SHAPES)), "")


def _swings(row: Json) -> bool:
    """Whether the spread says more than the mean: that is what is unusual, or the channel is about zero on average."""
    if row["direction"] in ("wider", "narrower"):
        return True
    normal = row["normal"]
    if normal.get("deviation") == 0:  # it stands still: there is no spread to speak of
        return False
    about_zero: bool = abs(normal["mean"]) <= _ABOUT_ZERO * (normal["high"] - normal["low"])
    return about_zero and (row["direction"] == "within" or _turns(row))


def _turns(row: Json) -> bool:
    """Whether it rises or falls inside its usual range."""
    return row["direction"] in ("rising", "falling") and row["since"] is None


def _moves_as_usual(row: Json) -> bool:
    """The window caught a breath as it went up or down, or noise: inside the usual range that is nothing odd."""
    normal, spread = row["normal"], row.get("deviation")
    inside = _turns(row) and normal["low"] <= row["mean"] <= normal["high"]
    return inside and (spread is None or "deviation" not in normal or spread <= _WIDER * normal["deviation"])


def _or_zero(mean: float, normal: Json) -> float:
    """What is left of a mean over values on both sides of zero is nothing that a person compares."""
    return 0.0 if abs(mean) < _NOTHING * (normal["high"] - normal["low"]) else mean


def _reference(data: Json) -> str:
    """Without a class that is called normal, values are compared with all that the model was trained on."""
    return "normal" if data["evidence"]["compared_with"] else "in training"


def _direction(row: Json, data: Json) -> str:
    if row["direction"] == "within":
        return ", in its usual range"
    if row["direction"] in (None, "wider", "narrower"):
        return ""
    if row["since"] is None:
        return f", {row['direction']}"
    since = f"since {'at least ' if row['since'] == data['window']['start'] else ''}{_clock(row['since'], data)} UTC"
    return f", {row['direction']}{_side_left(row)} {since}"


def _side_left(row: Json) -> str:
    """`since` is when the usual range was left: of a channel that comes back to it, not when it began to."""
    above = row["mean"] >= row["normal"]["mean"]
    if row["direction"] == "falling" and above:
        return ", mostly above its usual range"
    return ", mostly below its usual range" if row["direction"] == "rising" and not above else ""


def _missing(data: Json, *, before: str) -> str:
    names = data["window"]["missing_channels"]
    if not names:
        return ""
    more = f" and {len(names) - _MISSING} more" if len(names) > _MISSING else ""
    return f"{before}{', '.join(map(_name, names[:_MISSING]))}{more}"


def _implausible(data: Json, *, before: str) -> str:
    """Channels of which the model did not get some values, and what these look like."""
    findings = {one["channel"]: one for one in data["window"].get("implausible", ()) if one["masked"]}
    if not findings:
        return ""
    told = [
        f"{_name(name)} ({_words(one['finding'])} {_number(one['value'], _DIGITS[-1])})"
        for name, one in list(findings.items())[:_MISSING]
    ]
    more = f" and {len(findings) - _MISSING} more" if len(findings) > _MISSING else ""
    return f"{before}{', '.join(told)}{more}"


def _clock(stamp: str, data: Json) -> str:
    """As exact as the window is short; with the date where it is another one than that of the window's end."""
    start, end = data["window"]["start"], data["window"]["end"]
    seconds = (parse_iso(end) - parse_iso(start)) / NS_PER_S
    date, _, time = stamp.rstrip("Z").partition("T")
    whole, _, fraction = time.partition(".")
    if seconds < _SHORT_WINDOW_S:
        digits = next((digits for least, digits in _FRACTIONS if seconds >= least), 9)
        whole = f"{whole}.{fraction[:digits]:0<{digits}}"
    elif seconds >= _LONG_WINDOW_S:
        whole = whole[:5]
    return whole if date == end[: len(date)] else f"{date} {whole}"


def _distinct(one: float, other: float) -> tuple[str, str]:
    """Three digits, or as many as it takes to see the difference: not 101400 against 101300 where it is 25."""
    for digits in _DIGITS:
        texts = _number(one, digits), _number(other, digits)
        off = max(abs(float(text) - value) for text, value in zip(texts, (one, other), strict=True))
        if texts[0] != texts[1] and off <= _OFF * abs(one - other):
            break
    return texts


def _number(value: float, digits: int = _DIGITS[0]) -> str:
    """Plain decimals where they are short: 1520, 45.2, 0.00012; exponents beyond."""
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0 or 1e-4 <= abs(rounded) < 1e9:
        text = f"{Decimal(repr(rounded)):f}".rstrip("0").rstrip(".")  # 99999.9, not the binary fraction next to it
        return "0" if text == "-0" else text
    return f"{rounded:.{digits}g}"


def _percent(share: float) -> str:
    """Never 100 % or 0 % where it is not exactly so."""
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{100 * share:.0f} %"


def _class_name(name: str) -> str:
    return f"`{_name(name)}`"


def _name(name: str) -> str:
    """Both ends of a long name: plants tell tags apart by their beginning and their end."""
    shown, end = printable(name), _LONGEST_NAME // 2
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1 - end]}…{shown[-end:]}"


def _unit(unit: str) -> str:
    shown = printable(unit).strip()
    if len(shown) > _LONGEST_UNIT:
        shown = f"{shown[: _LONGEST_UNIT - 1]}…"
    return f" {shown}" if shown and shown != "1" else ""


def _words(reason: str) -> str:
    return _name(reason.replace("_", " ").strip()) or "the model did not decide"
