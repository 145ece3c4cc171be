"""The sentence for the operator: made of the event's facts, bounded, printable, the same for the same event."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events.sentence import LONGEST, state_sentence
from tests.support.event_samples import samples

VALVE: dict[str, Any] = {
    "name": "cooling valve",
    "unit": "%",
    "contribution": 2.0,
    "mean": 45.2,
    "min": 44.0,
    "max": 46.1,
    "normal": {"mean": 41.1, "low": 39.0, "high": 43.0},
    "direction": "rising",
    "since": "2026-11-18T02:14:30Z",
}


def event(*channels: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "state": "blockage",
        "abstention": None,
        "classes": [
            {"class": "blockage", "probability": 0.78, "logit": 2.0},
            {"class": "normal", "probability": 0.15, "logit": 0.3},
        ],
        "window": {
            "start": "2026-11-18T01:00:00Z",
            "end": "2026-11-18T03:00:00Z",
            "coverage": 1.0,
            "missing_channels": [],
        },
        "evidence": {
            "class": "blockage",
            "spans": [
                {"start": "2026-11-18T02:10:00Z", "end": "2026-11-18T02:20:00Z", "contribution": 1.0, "channels": []}
            ],
            "channels": list(channels),
            "compared_with": "normal",
        },
        **changes,
    }


def unknown(reason: str, *channels: dict[str, Any], missing: tuple[str, ...] = (), **changes: Any) -> str:
    data = event(*channels, state="unknown", abstention=reason, **changes)
    data["window"] = data["window"] | {"missing_channels": list(missing), "coverage": 0.31}
    return state_sentence(data)


def test_the_value_now_against_normal_since_when_and_what_it_speaks_for() -> None:
    assert state_sentence(event(VALVE)) == (
        "cooling valve 45.2 % against 41.1 % normal, rising since 02:14 UTC; "
        "speaks for `blockage` (78 %), runner-up `normal` (15 %)"
    )


def test_a_normal_state_says_what_is_as_usual_and_what_is_not() -> None:
    usual = VALVE | {"direction": "within", "since": None, "mean": 41.5}
    swinging = usual | {"name": "speed", "unit": "rpm", "mean": 0.1, "deviation": 3.21}
    swinging["normal"] = {"mean": 0.0, "low": -5.0, "high": 5.0, "deviation": 3.0}
    normal = [
        {"class": "normal", "probability": 0.9, "logit": 2.0},
        {"class": "blockage", "probability": 0.1, "logit": 0},
    ]
    calm = event(usual, swinging, state="normal", classes=normal)
    calm["evidence"]["class"] = "normal"
    assert state_sentence(calm) == (
        "`normal` (90 %), runner-up `blockage` (10 %); as usual: cooling valve 41.5 %, speed ±3.21 rpm"
    )
    odd = event(usual, VALVE | {"name": "load", "contribution": -0.2}, state="normal", classes=normal)
    odd["evidence"]["class"] = "normal"
    assert state_sentence(odd).endswith(
        "as usual: cooling valve 41.5 %; although load 45.2 % against 41.1 % normal, rising since 02:14 UTC"
    )


def test_a_normal_state_that_is_held_against_a_fault_tells_the_fault() -> None:
    data = event(VALVE, state="normal")
    data["window"]["unsettled"] = {"state": "blockage", "abstention": None}
    assert state_sentence(data).startswith(
        "still `normal`; this window alone: cooling valve 45.2 % against 41.1 % normal"
    )


def test_a_channel_that_stands_still_is_said_to() -> None:
    normal = VALVE["normal"] | {"deviation": 0.24}
    still = VALVE | {"direction": "narrower", "deviation": 0.0, "normal": normal}
    assert state_sentence(event(still)).startswith("cooling valve does not vary at all, ±0.24 % normal; speaks for")


def test_a_mean_about_zero_is_not_told_to_digits_that_say_nothing() -> None:
    normal = {"mean": -9.2e-05, "low": -0.4, "high": 0.41, "deviation": 0.25}
    speed = VALVE | {"unit": "mm/s", "normal": normal, "since": None, "mean": -0.0169}
    assert "varies by ±0.31 mm/s against ±0.25 mm/s normal" in state_sentence(
        event(speed | {"direction": "within", "deviation": 0.31})
    )
    few = state_sentence(event(speed | {"direction": "within"}))  # too few values to say how much it varies
    assert few.startswith("cooling valve -0.0169 mm/s against 0 mm/s normal, in its usual range;")
    moving = state_sentence(event(speed | {"mean": 3e-4, "direction": "falling", "deviation": 0.31}))
    assert moving.startswith("cooling valve varies by ±0.31 mm/s against ±0.25 mm/s normal, falling;")
    outside = speed | {"mean": 0.0006, "direction": "above", "normal": normal | {"low": -1.0, "high": 0.0005}}
    assert state_sentence(event(outside)).startswith("cooling valve 0.0006 mm/s against 0 mm/s normal, above;")


def test_a_breath_that_goes_up_is_nothing_odd() -> None:
    normal = {"mean": 0.0004, "low": -1.2, "high": 1.2, "deviation": 0.73}
    row = {"name": "resp", "unit": "", "normal": normal, "since": None, "deviation": 0.9, "mean": -0.026}
    breath = VALVE | row | {"direction": "rising", "contribution": -0.1}
    classes = [
        {"class": "normal", "probability": 1.0, "logit": 9.0},
        {"class": "apnea", "probability": 0.0, "logit": 0},
    ]
    calm = event(breath, state="normal", classes=classes)
    calm["evidence"]["class"] = "normal"
    assert state_sentence(calm) == "`normal` (> 99 %), runner-up `apnea` (< 1 %)"
    calm["evidence"]["channels"] = [breath | {"deviation": 1.8}]
    assert state_sentence(calm).endswith("; although resp varies by ±1.8 against ±0.73 normal, rising")
    few = breath | {"mean": 0.4, "normal": {"mean": 0.9, "low": 0.3, "high": 1.2}, "deviation": None}
    calm["evidence"]["channels"] = [few]
    assert "although" not in state_sentence(calm)
    calm["evidence"]["channels"] = [breath | {"since": "2026-11-18T02:00:00Z"}]
    assert "although resp -0.026 against 0 normal, rising, mostly below its usual range since" in state_sentence(calm)
    assert state_sentence(event(breath | {"contribution": 1.0})).startswith(
        "resp varies by ±0.9 against ±0.73 normal, rising; speaks for `blockage`"
    )


def test_a_channel_that_stands_still_as_usual_is_told_by_its_value() -> None:
    still = {"mean": 0.0, "low": 0.0, "high": 0.0, "deviation": 0.0}
    row = VALVE | {"direction": "within", "since": None, "mean": 0.0, "deviation": 0.0, "normal": still}
    assert state_sentence(event(row)).startswith("cooling valve 0 % against 0 % normal, in its usual range; speaks")


def test_windows_before_may_change_the_state_in_spite_of_the_last_one() -> None:
    data = event(VALVE, state="normal", previous_state="leak")
    data["window"]["unsettled"] = {"state": "blockage", "abstention": None}
    assert state_sentence(data).startswith("now `normal`; this window alone: cooling valve")
    assert state_sentence(data | {"previous_state": "normal"}).startswith("still `normal`; this window alone: ")


def test_tags_that_differ_in_their_end_are_told_apart() -> None:
    rows = [VALVE | {"name": f"PLANT-7/AREA-12/UNIT-4/LINE-2/COOLING-WATER/{end}"} for end in ("TI-4711", "TI-4712")]
    text = state_sentence(event(*rows))
    assert "TI-4711 45.2" in text
    assert "TI-4712 45.2" in text


def test_the_first_window_of_an_asset_is_no_reason_to_check_sensors() -> None:
    text = unknown("low_coverage", classes=None, evidence=None, previous_state=None)
    assert text == "unknown: only 31 % of the values arrived so far; the first state follows with more data"
    assert "check the sensors" in unknown("low_coverage", classes=None, evidence=None, previous_state="normal")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "; most like pump-3 at 2026-01-02 03:04:05 (`blockage`)"),
        ({"start": "1970-01-01T00:07:14.400Z"}, "; most like pump-3, 00:07:14 after its start (`blockage`)"),
        ({"start": "1970-01-02T00:07:14Z"}, "; most like pump-3, 1 d 00:07:14 after its start (`blockage`)"),
        ({"recording": None, "start": None, "class": "normal"}, "; most like case 17 (`normal`)"),
        ({"distance": 1.2}, "(15 %)"),
    ],
)
def test_the_most_similar_training_segment_is_named_if_it_is_alike(changes: dict[str, Any], expected: str) -> None:
    like = {"span": 0, "class": "blockage", "recording": "pump-3", "case": 17, "start": "2026-01-02T03:04:05.5Z"}
    data = event(VALVE, similar=[like | {"distance": 0.3} | changes])
    assert state_sentence(data).endswith(expected)


def test_a_value_in_its_usual_range_is_told_by_its_shape() -> None:
    like = {"span": 0, "class": "blockage", "recording": None, "case": 1, "start": None, "distance": 2.0}
    data = event(VALVE | {"direction": "within", "since": None}, similar=[like | {"shape": "oscillation near 2 Hz"}])
    data["evidence"]["spans"][0]["channels"] = ["cooling valve"]
    assert state_sentence(data).startswith("cooling valve oscillation near 2 Hz (45.2 %, in its usual range); speaks")
    for shape in (None, "usual values", "usual level"):
        plain = data | {"similar": [like | {"shape": shape}]}
        assert state_sentence(plain).startswith("cooling valve 45.2 % against 41.1 % normal, in its usual range; ")


def test_two_channels_at_most_and_only_those_that_speak_for_the_state() -> None:
    rows = [VALVE | {"name": name, "contribution": value} for name, value in zip("abcd", (0.1, -3, 1, 2), strict=True)]
    text = state_sentence(event(*rows))
    assert [part[0] for part in text.split("; ")[:-1]] == ["d", "c"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"since": "2026-11-18T01:00:00Z"}, "45.2 % against 41.1 % normal, rising since at least 01:00 UTC"),
        ({"since": None, "direction": "above"}, "45.2 % against 41.1 % normal, above"),
        ({"direction": "within"}, "45.2 % against 41.1 % normal, in its usual range"),
        ({"unit": "", "direction": None, "since": None}, "45.2 against 41.1 normal"),
        ({"normal": None, "direction": None}, "45.2 %"),
        ({"mean": None}, "without a value"),
        ({"direction": "wider"}, "between 44 and 46.1 %, varying more than normal"),
        (
            {"direction": "falling"},
            "45.2 % against 41.1 % normal, falling, mostly above its usual range since 02:14 UTC",
        ),
        (
            {"mean": 37.0, "direction": "rising"},
            "37 % against 41.1 % normal, rising, mostly below its usual range since 02:14 UTC",
        ),
        ({"mean": 37.0, "direction": "falling"}, "37 % against 41.1 % normal, falling since 02:14 UTC"),
        (
            {"unit": "kilograms per hour"},
            "45.2 kilograms per h… against 41.1 kilograms per h… normal, rising since 02:14 UTC",
        ),
        ({"mean": 41.11, "direction": "within"}, "41.11 % against 41.1 % normal, in its usual range"),
        ({"mean": 41.16, "direction": "within"}, "41.16 % against 41.1 % normal, in its usual range"),
        ({"mean": -0.0, "direction": "within"}, "0 % against 41.1 % normal, in its usual range"),
        ({"mean": 1.5e12, "direction": "within"}, "1.5e+12 % against 41.1 % normal, in its usual range"),
        ({"mean": 12345.678, "direction": "within"}, "12300 % against 41.1 % normal, in its usual range"),
    ],
)
def test_every_sort_of_comparison(changes: dict[str, Any], expected: str) -> None:
    assert state_sentence(event(VALVE | changes)).split("; ")[0] == f"cooling valve {expected}"


@pytest.mark.parametrize(
    ("start", "since", "clock"),
    [
        ("2026-11-17T03:00:00Z", "2026-11-17T23:10:00Z", "2026-11-17 23:10"),
        ("2026-11-18T02:59:00Z", "2026-11-18T02:59:30.25Z", "02:59:30"),
        ("2026-11-18T02:59:59Z", "2026-11-18T02:59:59.5Z", "02:59:59.500"),
        ("2026-11-18T02:59:59.99Z", "2026-11-18T02:59:59.9951Z", "02:59:59.995100"),
        ("2026-11-18T02:59:59.99999Z", "2026-11-18T02:59:59.999995001Z", "02:59:59.999995001"),
    ],
)
def test_times_are_as_exact_as_the_window_is_short(start: str, since: str, clock: str) -> None:
    data = event(VALVE | {"since": since})
    data["window"]["start"] = start
    assert f"rising since {clock} UTC;" in state_sentence(data)


def test_channels_that_are_read_together_are_not_blamed_alone() -> None:
    assert state_sentence(event(VALVE | {"contribution": None})).startswith(
        "several channels together, furthest from normal: cooling valve 45.2 % against"
    )


def test_of_channels_that_are_read_together_the_one_furthest_from_normal_is_told() -> None:
    near = VALVE | {"name": "flow", "contribution": None, "mean": 41.2, "direction": "within", "since": None}
    far = VALVE | {"contribution": None}
    assert state_sentence(event(near, far)).startswith(
        "several channels together, furthest from normal: cooling valve 45.2 %"
    )
    without = near | {"mean": None}
    assert "normal: flow without a value" in state_sentence(event(without, near | {"normal": None, "name": "p"}))


def test_without_a_normal_class_values_are_compared_with_the_training_data() -> None:
    data = event(VALVE)
    data["evidence"]["compared_with"] = None
    assert state_sentence(data).startswith("cooling valve 45.2 % against 41.1 % in training, rising since 02:14 UTC;")
    together = event(VALVE | {"contribution": None})
    together["evidence"]["compared_with"] = None
    assert "furthest from the training data: cooling valve" in state_sentence(together)


def test_where_no_channel_is_known_it_says_when() -> None:
    assert state_sentence(event()).startswith("02:10 to 02:20 UTC; speaks for `blockage`")
    against = event(VALVE | {"contribution": -0.5})
    against["evidence"]["spans"][0]["channels"] = ["flow"]
    assert state_sentence(against).startswith("flow from 02:10 to 02:20 UTC; speaks for `blockage`")


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (
            "low_margin",
            "unknown: `blockage` (78 %) and `normal` (15 %) are too close to tell apart; cooling valve",
        ),
        ("conformal", "unknown: `blockage` (78 %) and `normal` (15 %) are both possible; cooling valve"),
        ("low_probability", "unknown: no state is likely enough; nearest `blockage` (78 %), runner-up `normal` (15 %)"),
        ("out_of_distribution", "unknown: values outside what the model has learnt: cooling valve 45.2 % against 41.1"),
        ("sensor_fault", "unknown: sensor fault; nearest `blockage` (78 %)"),
    ],
)
def test_unknown_says_why_and_what_was_near(reason: str, text: str) -> None:
    assert unknown(reason, VALVE).startswith(text)


def test_unknown_data_are_told_by_channel_with_unit_whatever_the_evidence_is() -> None:
    data = event(state="unknown", abstention="out_of_distribution")
    data["window"]["outside_training"] = [
        {"channel": "level", "unit": "%", "value": 71.9, "low": 38.3, "high": 62.7, "share": 1.0},
        {"channel": "switch", "unit": "", "value": 2.0, "low": 0.0, "high": 1.0, "share": 0.1},
    ]
    text = state_sentence(data)
    assert "level 71.9 %, in training 38.3 to 62.7; switch 2, in training 0 to 1; check these sensors" in text


def test_a_value_outside_is_written_with_the_digits_that_show_it() -> None:
    data = event(state="unknown", abstention="out_of_distribution")
    row = {"channel": "level", "unit": "%", "value": 62.712, "low": 38.3456, "high": 62.7001, "share": 1.0}
    data["window"]["outside_training"] = [row]
    assert "level 62.71 %, in training 38.35 to 62.7;" in state_sentence(data)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (
            "low_coverage",
            "unknown: only 31 % of the values arrived; check the sensors and the connection: little or no data from a",
        ),
        ("channel_missing", "unknown: the model needs channels that are missing: a; check these sensors"),
        ("internal", "unknown: the agent failed on this window; its log says why, and it goes on with the next one"),
        ("history_lost", "unknown: records of this window were deleted from the log before they were read; new data"),
        ("_", "unknown: the model did not decide"),
    ],
)
def test_unknown_without_a_model_says_what_to_do(reason: str, text: str) -> None:
    assert unknown(reason, missing=("a",), classes=None, evidence=None).startswith(text)


def test_missing_channels_are_named_three_at_most() -> None:
    data = event(VALVE)
    data["window"]["missing_channels"] = list("abcde")
    assert state_sentence(data).endswith("; little or no data from a, b, c and 2 more")


def test_values_that_cannot_be_right_are_named_with_the_sensor() -> None:
    finding = {"channel": "flow", "finding": "sentinel", "value": -9999.0, "masked": True}
    data = event(VALVE)
    data["window"]["implausible"] = [finding, finding | {"channel": "p", "masked": False}]
    assert state_sentence(data).endswith("(15 %); not used: flow (sentinel -9999)")
    text = state_sentence(data | {"state": "unknown", "abstention": "implausible_values"})
    assert text == "unknown: values that cannot be right: flow (sentinel -9999); check these sensors"


def test_rounding_does_not_make_a_difference_larger() -> None:
    normal = {"mean": 101325.0, "low": 101318.0, "high": 101332.0}
    row = VALVE | {"unit": "Pa", "mean": 101350.0, "normal": normal, "direction": "above", "since": None}
    assert state_sentence(event(row)).startswith("cooling valve 101350 Pa against 101320 Pa normal, above;")


def test_a_code_is_told_as_it_is_written() -> None:
    data = event(VALVE)
    data["window"]["implausible"] = [{"channel": "flow", "finding": "sentinel", "value": 99999.9, "masked": True}]
    assert state_sentence(data).endswith("; not used: flow (sentinel 99999.9)")


def test_a_class_may_be_called_unknown() -> None:
    assert not state_sentence(event(VALVE, state="unknown")).startswith("unknown:")


texts = st.text(max_size=600)
numbers = st.floats(allow_nan=False, allow_infinity=False)
rows = st.fixed_dictionaries(
    {
        "name": texts,
        "unit": texts,
        "contribution": numbers | st.none(),
        "mean": numbers | st.none(),
        "min": numbers,
        "max": numbers,
        "normal": st.none() | st.fixed_dictionaries({"mean": numbers, "low": numbers, "high": numbers}),
        "direction": st.sampled_from([None, "above", "within", "wider", "falling"]),
        "since": st.sampled_from([None, "2026-11-18T02:14:30.000000001Z"]),
    }
)


@given(st.lists(rows, max_size=4), texts, texts, st.lists(texts, max_size=5), st.floats(0, 1))
def test_any_names_and_numbers_give_a_short_printable_line(
    channels: list[dict[str, Any]], state: str, reason: str, missing: list[str], likely: float
) -> None:
    for abstention in (None, reason, "low_margin", "out_of_distribution", "low_coverage"):
        data = event(*channels, state=state, abstention=abstention)
        data["classes"][0] = {"class": state, "probability": likely, "logit": 0.0}
        data["window"]["missing_channels"] = missing
        text = state_sentence(data)
        assert text.isprintable()
        assert 0 < len(text) <= LONGEST


def test_a_published_sentence_follows_from_the_published_facts() -> None:
    states = [one.event.data for one in samples().outgoing if one.event.type == "state"]
    assert len({data["text"] for data in states}) > 5
    for data in states:
        assert state_sentence(orjson.loads(orjson.dumps(data))) == data["text"]
