"""One sentence for the operator, made of an event's own facts: the same event always gives the same text. Pure.

Times are in UTC. Every name is printable and of limited length, whatever a bundle or a record calls its channels.
"""

from collections.abc import Mapping
from typing import Any

from connectors.printable import printable
from connectors.timestamps import NS_PER_S, parse_iso

LONGEST = 500
_LONGEST_NAME, _LONGEST_UNIT = 40, 16
_CHANNELS = 2
_MISSING = 3
_LONG_WINDOW_S, _SHORT_WINDOW_S = 7200, 10
_DIGITS = (3, 4, 5, 6)
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
        text = f"still {_class_name(data['state'])}; this window alone: {state_sentence(said)}"
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    if data["abstention"]:
        text = f"unknown: {_reason(data)}"
    else:
        facts = _facts(data)
        text = f"{facts}; speaks for {_candidates(data)}" if facts else _candidates(data)
    if data["abstention"] not in ("channel_missing", "low_coverage"):
        text += _missing(data, before="; no data from ")
    if data["abstention"] != "implausible_values":
        text += _implausible(data, before="; not used: ")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _reason(data: Json) -> str:
    """What a person can act on."""
    reason, classes = data["abstention"] or "", data["classes"]
    if reason == "low_coverage":
        share = f"only {_percent(data['window']['coverage'])} of the values arrived"
        return f"{share}; check the sensors and the connection{_missing(data, before=': no data from ')}"
    if reason == "channel_missing":
        return f"the model needs channels that are missing{_missing(data, before=': ')}; check these sensors"
    if reason == "implausible_values":
        return f"values that cannot be right{_implausible(data, before=': ')}; check these sensors"
    if not classes:
        return _UNKNOWN.get(reason, _words(reason))
    if reason == "out_of_distribution":
        facts = _facts(data, outside=True)
        where = f": {facts}" if facts else ""
        return f"values outside what the model has learnt{where}; check the sensors, or train on such data"
    if reason == "low_probability":
        return f"no state is likely enough; nearest {_candidates(data)}"
    if reason in ("low_margin", "conformal"):
        return f"{_score(classes[0])} and {_score(classes[1])} are too close to tell apart{_because(data)}"
    return f"{_words(reason)}; nearest {_candidates(data)}"


def _because(data: Json) -> str:
    facts = _facts(data)
    return f"; {facts}" if facts else ""


def _candidates(data: Json) -> str:
    classes = data["classes"]
    if not classes:
        return _class_name(data["state"])
    return ", runner-up ".join(_score(one) for one in classes[:2])


def _score(row: Json) -> str:
    return f"{_class_name(row['class'])} ({_percent(row['probability'])})"


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
        return f"several channels together, {far}: {_compare(rows[0], data)}"
    return _when(evidence, data)


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
    if row["direction"] in ("wider", "narrower"):
        how = "more" if row["direction"] == "wider" else "less"
        low, high = _distinct(row["min"], row["max"])
        return f"{name} between {low} and {high}{unit}, varying {how} than {_reference(data)}"
    now, usual = _distinct(row["mean"], normal["mean"])
    return f"{name} {now}{unit} against {usual}{unit} {_reference(data)}{_direction(row, data)}"


def _reference(data: Json) -> str:
    """Without a class that is called normal, values are compared with all that the model was trained on."""
    return "normal" if data["evidence"]["compared_with"] else "in training"


def _direction(row: Json, data: Json) -> str:
    if row["direction"] in (None, "within"):
        return ""
    if row["since"] is None:
        return f", {row['direction']}"
    before = "at least " if row["since"] == data["window"]["start"] else ""
    return f", {row['direction']} since {before}{_clock(row['since'], data)} UTC"


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
        whole = f"{whole}.{fraction[:3]:0<3}"
    elif seconds >= _LONG_WINDOW_S:
        whole = whole[:5]
    return whole if date == end[: len(date)] else f"{date} {whole}"


def _distinct(one: float, other: float) -> tuple[str, str]:
    """Three digits, or as many as it takes to see the difference."""
    for digits in _DIGITS:
        texts = _number(one, digits), _number(other, digits)
        if texts[0] != texts[1]:
            break
    return texts


def _number(value: float, digits: int = _DIGITS[0]) -> str:
    """Plain decimals where they are short: 1520, 45.2, 0.00012; exponents beyond."""
    rounded = float(f"{value:.{digits}g}")
    if rounded == 0 or 1e-4 <= abs(rounded) < 1e9:
        text = f"{rounded:.12f}".rstrip("0").rstrip(".")
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
    shown = printable(name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def _unit(unit: str) -> str:
    shown = printable(unit).strip()
    return f" {shown[:_LONGEST_UNIT]}" if shown and shown != "1" else ""


def _words(reason: str) -> str:
    return _name(reason.replace("_", " ").strip()) or "the model did not decide"
