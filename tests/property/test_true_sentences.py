"""Whatever a plant measures: what an event's sentence claims is true of the window, and its numbers add up exactly."""

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from agent.events.evidence import explain
from agent.events.sentence import LONGEST, state_sentence
from agent.events.spans import EvidencePolicy
from agent.models.normal_values import NormalValues
from connectors.timestamps import parse_iso
from tests.support.event_sums import require_exact_sums
from tests.support.predictions import HOUR_NS, MadePrediction, made_view

STEPS, PATCH = 32, 4
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
UNITS = ("", "1", "%", "°C", "mm/s", "m³/h", "µV", "\u202em", "kilograms per hour", "  bar ", "e5")
KINDS = ("usual", "constant", "away", "wide", "still", "ramp", "drop", "back", "recent", "gaps", "gone")
SCALES = (1e-12, 1e-3, 1.0, 300.0, 1e5, 1e12)
Floats = NDArray[np.float64]


def course(kind: str, rng: np.random.Generator) -> Floats:
    """A window of a channel whose usual values are a noise of deviation 1 about 0."""
    usual, step = rng.normal(size=STEPS), np.arange(STEPS)
    courses: dict[str, Floats] = {
        "usual": usual,
        "constant": np.zeros(STEPS),
        "away": usual + rng.choice([-6.0, 6.0]),
        "wide": 5 * usual,
        "still": 0.01 * usual,
        "ramp": usual + rng.choice([-1.0, 1.0]) * step / 4,
        "drop": usual + rng.choice([-9.0, 9.0]) * (step < 22),
        "back": usual + rng.choice([-1.0, 1.0]) * (40 - step) / 3,
        "recent": usual + rng.choice([-9.0, 9.0]) * (step >= rng.integers(8, 30)),
        "gaps": np.where(rng.random(STEPS) < 0.7, np.nan, usual),
        "gone": np.full(STEPS, np.nan),
    }
    return courses[kind]


@dataclass(frozen=True)
class Told:
    """An event's data as read back, and the raw window (C, T) by channel name."""

    data: dict[str, Any]
    window: dict[str, Floats]

    @property
    def facts(self) -> list[dict[str, Any]]:
        return list(self.data["evidence"]["channels"])


def normal_values(rng: np.random.Generator, scale: Floats, centre: Floats, constant: NDArray[np.bool_]) -> NormalValues:
    train = np.where(constant[:, None], 0.0, rng.normal(size=(len(scale), 500)))
    values = (centre[:, None] + scale[:, None] * train).astype(np.float32).astype(np.float64)
    low, high = np.quantile(values, (0.05, 0.95), axis=1)
    label = "class 0" if rng.random() < 0.7 else None
    return NormalValues(label, values.mean(axis=1), low, high, values.std(axis=1))


@st.composite
def tellings(draw: st.DrawFn) -> Told:
    """One or several channels of any kind, scale, offset and unit; read alone or together; two or twenty classes."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    scale = np.array([draw(st.sampled_from(SCALES)) for _ in kinds])
    centre = scale * np.array([draw(st.sampled_from([0.0, -1e-4, 3.0, -40.0, 200.0])) for _ in kinds])
    constant = np.array([kind == "constant" for kind in kinds])
    raw = centre[:, None] + scale[:, None] * np.stack([course(kind, rng) for kind in kinds])
    window = raw.astype(np.float32)
    names = tuple(f"tag {number}" for number in range(len(kinds)))
    units = tuple(draw(st.sampled_from(UNITS)) for _ in kinds)
    view = made_view(window, normal=normal_values(rng, scale, centre, constant), names=names, units=units)
    alone = tuple((number,) for number in range(len(kinds)))
    terms = draw(st.sampled_from([alone, (tuple(range(len(kinds))),)]))
    classes = draw(st.sampled_from([2, 3, 20]))
    size = draw(st.sampled_from([1e-12, 1.0, 1e12]))
    evidence = size * rng.normal(size=(STEPS // PATCH, len(terms), classes))
    made = MadePrediction(evidence, size * rng.normal(size=classes), terms=terms, length=PATCH)
    labels = tuple(f"class {number}" for number in range(classes))
    fields = explain(made.as_prediction(), 0, classes=labels, view=view, policy=EvidencePolicy(), why_not=True)
    gone = [name for name, kind in zip(names, kinds, strict=True) if kind in ("gone", "gaps")]
    data = {
        "state": labels[int(made.label[0])],
        "previous_state": None,
        "abstention": None,
        **fields,
        "window": {"start": view.time(0), "end": view.time(STEPS), "coverage": 0.9, "missing_channels": gone},
    }
    values = view.values.astype(np.float64)
    return Told(orjson.loads(orjson.dumps(data)), dict(zip(names, values, strict=True)))


def clauses(told: Told) -> list[tuple[dict[str, Any], str]]:
    """Each channel that the sentence compares, with what it says about it."""
    text = state_sentence(told.data)
    found = []
    for row in told.facts:
        for part in text.split("; "):
            place = part.find(f"{row['name']} ")
            if place >= 0 and "data from" not in part:
                found.append((row, part[place:]))
    return found


@given(tellings())
def test_a_channel_is_said_to_be_where_its_values_are(told: Told) -> None:
    for row, said in clauses(told):
        normal = row["normal"]
        if "in its usual range" in said and "varies by" not in said:
            assert normal["low"] <= row["mean"] <= normal["high"]
        if re.search(r", above( since|$)", said):
            assert row["mean"] > normal["mean"]
            assert row["mean"] >= normal["high"]
        if re.search(r", below( since|$)", said):
            assert row["mean"] < normal["mean"]
            assert row["mean"] <= normal["low"]
        if "does not vary at all" in said:
            values = told.window[row["name"]]
            assert np.unique(values[np.isfinite(values)]).size < STEPS
            assert normal["deviation"] > 0
        if "without a value" in said:
            assert row["mean"] is None


@given(tellings())
def test_since_when_is_when_the_usual_range_was_left_on_the_side_that_is_told(told: Told) -> None:
    start = parse_iso(told.data["window"]["start"])
    for row, said in clauses(told):
        found = re.search(r"(, mostly (above|below) its usual range)? since (at least )?([\d: -]+) UTC", said)
        if found is None:
            continue
        step = (parse_iso(row["since"]) - start) // HOUR_NS
        assert found[4] == written(row["since"], told.data["window"]["end"])
        assert (found[3] is not None) == (step == 0)
        above = row["mean"] >= row["normal"]["mean"]
        if found[2] is None:
            assert row["direction"] in (("above", "rising") if above else ("below", "falling"))
        else:
            assert found[2] == ("above" if above else "below")
        values = told.window[row["name"]]
        outside = values > row["normal"]["high"] if above else values < row["normal"]["low"]
        spans = [span for span in told.data["evidence"]["spans"] if row["name"] in span["channels"]]
        ends = [(parse_iso(span["end"]) - start) // HOUR_NS for span in spans]
        until = [slice(step, end) for end in ends if end > step]  # by then it is said, for the span that is compared
        assert any(2 * outside[part].sum() > np.isfinite(values[part]).sum() for part in until)


def written(stamp: str, end: str) -> str:
    time = datetime.fromisoformat(stamp.rstrip("Z"))
    return f"{time:%H:%M}" if stamp[:10] == end[:10] else f"{time:%Y-%m-%d %H:%M}"


@given(tellings())
def test_a_comparison_shows_two_numbers_that_differ_as_the_values_do(told: Told) -> None:
    for row, said in clauses(told):
        pair = re.match(
            rf"(?:varies by ±)?({NUMBER})(?: \S.*?)? against ±?({NUMBER})", said.removeprefix(f"{row['name']} ")
        )
        if pair is None:
            continue
        now, usual = Decimal(pair[1]), Decimal(pair[2])
        if row["direction"] in ("above", "wider"):
            assert now > usual
        elif row["direction"] in ("below", "narrower"):
            assert now < usual
        if row["direction"] in ("above", "below"):  # a large difference is not made of rounding
            apart = row["mean"] - row["normal"]["mean"]
            digits = 1e-5 * max(abs(row["mean"]), abs(row["normal"]["mean"]))  # no more of them are published
            nothing = 0.001 * (row["normal"]["high"] - row["normal"]["low"])  # and so much about zero is 0
            assert float(now - usual) == pytest.approx(apart, rel=0.51, abs=2 * digits + nothing)
        for text in pair.groups():
            number = abs(float(text))
            assert ("e" in text) == (number != 0 and not 1e-4 <= number < 1e9)


@given(tellings())
def test_the_furthest_of_channels_read_together_is_the_furthest(told: Told) -> None:
    text = state_sentence(told.data)
    found = re.match(r"several channels together, furthest from [a-z ]+: (tag \d)", text)
    if found is None:
        return

    def distance(row: dict[str, Any]) -> float:
        normal = row["normal"]
        if row["mean"] is None:
            return -1.0
        away = abs(row["mean"] - normal["mean"])
        return float(away / max(normal["high"] - normal["low"], 1e-30))

    named = next(row for row in told.facts if row["name"] == found[1])
    assert distance(named) == pytest.approx(max(map(distance, told.facts)))


@given(tellings())
def test_the_runner_up_and_missing_channels_are_those_of_the_event(told: Told) -> None:
    text, classes = state_sentence(told.data), told.data["classes"]
    assert text.isprintable()
    assert len(text) <= LONGEST
    first, second = (f"`{row['class']}` (" for row in classes[:2])
    assert text.index(first) < text.index("runner-up " + second)
    for name in told.data["window"]["missing_channels"][:3]:
        assert name in text[text.index("; little or no data from ") :]
    require_exact_sums(told.data)


SIZES = (0.0, 5e-324, 1e-30, 1e-22, 1e-12, 1e12, 1e22, 1e150, 1e300)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(SIZES),
    st.sampled_from([1, 2, 200]),
    st.sampled_from([2, 3, 20]),
    st.sampled_from([None, 0, 1]),
)
def test_sums_are_exact_at_any_size_with_one_channel_and_with_two_hundred(
    seed: int, size: float, channels: int, classes: int, missing: int | None
) -> None:
    rng = np.random.default_rng(seed)
    window = rng.normal(size=(channels, 16))
    window[slice(None) if missing is None else missing % channels] = np.nan  # the whole window, or one channel
    evidence = size * rng.normal(size=(4, channels, classes)) * 10.0 ** rng.integers(-6, 1, size=(4, channels, 1))
    made = MadePrediction(evidence, size * rng.normal(size=classes), length=4)
    centre, wide = np.zeros(channels), np.ones(channels)
    view = made_view(window, normal=NormalValues("class 0", centre, -wide, wide, wide))
    labels = tuple(f"class {number}" for number in range(classes))
    fields = explain(made.as_prediction(), 0, classes=labels, view=view, policy=EvidencePolicy(), why_not=True)
    require_exact_sums(orjson.loads(orjson.dumps(fields)))


@pytest.mark.parametrize("where", ["evidence", "context"])
def test_a_score_that_overflowed_is_refused_and_not_published(where: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        overflowed = float(np.float32(3e38) * np.float32(10))
        made = MadePrediction(np.ones((4, 2, 2)), [1.0, 0.0])
        part = made.evidence if where == "evidence" else made.context
        part[..., 0] = overflowed
        made.logits = made.context + made.evidence.sum(axis=(1, 2))
    view = made_view(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="finite"):
        explain(made.as_prediction(), 0, classes=("a", "b"), view=view, policy=EvidencePolicy(), why_not=True)
