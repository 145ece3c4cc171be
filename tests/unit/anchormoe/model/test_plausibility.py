import numpy as np
import pytest
from numpy.typing import NDArray

from anchormoe.bundle.files import dump_json, parse_json
from anchormoe.cases import Cases
from anchormoe.errors import ModelError
from anchormoe.model.judgement import Finding, Judge
from anchormoe.model.normalizer import Normalizer
from anchormoe.model.plausibility import Plausibility, find_codes, find_dispensable, without_codes

CASES, STEPS = 120, 64
FLOW, COUNT, FIXED, TOTAL, COARSE, MODE = range(6)
"""A noisy measurement, whole numbers, a constant, a meter that only rises, a quantised value, a switch."""


def train() -> NDArray[np.float32]:
    rng = np.random.default_rng(7)
    x = np.empty((CASES, 6, STEPS), np.float32)
    x[:, FLOW] = rng.normal(50, 2, (CASES, STEPS))
    x[:, COUNT] = rng.integers(3, 9, (CASES, STEPS))
    x[:, FIXED] = 7.5
    x[:, TOTAL] = 1000 + np.cumsum(rng.random((CASES, STEPS)), axis=1)
    x[:, COARSE] = np.round(rng.normal(20, 0.3, (CASES, STEPS)) * 2) / 2
    x[:, MODE] = np.arange(STEPS) >= rng.integers(0, STEPS, (CASES, 1))
    return x


RULES = Plausibility.fit(Cases.from_arrays(train()), np.arange(CASES) % 2, 2)
JUDGE = Judge.for_windows(RULES, STEPS)


def window(seed: int = 1) -> NDArray[np.float32]:
    """As TRAIN, but new; the meter has gone on."""
    x: NDArray[np.float32] = train()[seed].copy()
    x[FLOW] = np.random.default_rng(seed).normal(50, 2, STEPS)
    x[TOTAL] += 90_000
    return x


def judged(x: NDArray[np.float32]) -> list[tuple[int, str, int, int, bool]]:
    [found] = JUDGE.judge(x[None]).findings
    return [(one.channel, one.kind, one.first, one.last, one.masked) for one in found]


def test_train_itself_is_plausible() -> None:
    x = train()
    judgement = JUDGE.judge(x)
    assert not any(judgement.findings)
    np.testing.assert_array_equal(judgement.windows, x)
    assert not judgement.unusable.any()


def test_a_meter_that_goes_on_a_constant_and_a_counter_are_plausible() -> None:
    x = window()
    x[FIXED] = 9.0  # somebody has set another value
    x[COUNT] = 5.0  # and this one does not move for once
    x[MODE] = 1.0
    assert judged(x) == []


def test_a_burst_of_codes_is_found_masked_and_interpolated() -> None:
    x = window()
    x[FLOW, 20:26] = -9999
    assert judged(x) == [(FLOW, "sentinel", 20, 25, True)]
    judgement = JUDGE.judge(x[None])
    line = np.interp(np.arange(20, 26), [19, 26], x[FLOW, [19, 26]].astype(np.float64))
    np.testing.assert_allclose(judgement.windows[0, FLOW, 20:26], line, rtol=1e-6)
    assert not judgement.unusable.any()
    assert x[FLOW, 20] == -9999  # the window itself is not changed


@pytest.mark.parametrize("code", [-9999, 9999, -999, 1e30, 3.4028235e38, 65535])
def test_a_dead_sensor_is_missing_whatever_code_it_sends(code: float) -> None:
    x = window()
    x[FLOW] = code
    assert judged(x) == [(FLOW, "sentinel", 0, STEPS - 1, True)]
    judgement = JUDGE.judge(x[None])
    assert np.isnan(judgement.windows[0, FLOW]).all()
    assert judgement.unusable.tolist() == [[True] + [False] * 5]


def test_a_code_that_train_could_have_measured_is_a_value() -> None:
    x = np.random.default_rng(0).normal(0, 2000, (50, 1, STEPS))
    judge = Judge.for_windows(Plausibility.fit(Cases.from_arrays(x), np.arange(50) % 2, 2), STEPS)
    some = x[:1].astype(np.float32).copy()
    some[0, 0, 30] = 999
    assert judge.judge(some).findings == ((),)


def test_zero_is_a_code_where_train_is_never_near_it_unless_the_value_falls_there() -> None:
    stuck = window()
    stuck[FLOW, 30:] = 0
    assert judged(stuck) == [(FLOW, "sentinel", 30, STEPS - 1, True)]
    falls = window()
    falls[FLOW, 30:] = np.maximum(50 - 5 * np.arange(STEPS - 30), 0)
    assert all(kind != "sentinel" and not masked for _, kind, _, _, masked in judged(falls))


def test_a_value_that_stays_the_last_one_is_frozen() -> None:
    x = window()
    x[FLOW, 40:] = x[FLOW, 40]
    assert judged(x) == [(FLOW, "frozen", 40, STEPS - 1, True)]


def test_a_flat_line_as_train_has_it_is_plausible() -> None:
    """An ECG between two beats, a quantised temperature."""
    assert RULES.longest[COARSE] > 3
    x = window()
    x[COARSE, 10 : 10 + int(RULES.longest[COARSE]) + 1] = 20.0
    assert judged(x) == []


def test_a_flat_line_beyond_the_range_is_told_but_may_be_the_process_at_its_limit() -> None:
    x = window()
    x[FLOW] = np.minimum(np.linspace(50, 70, STEPS), 60).astype(np.float32)
    assert x[FLOW, -1] > RULES.high[FLOW]
    assert [(kind, masked) for _, kind, _, _, masked in judged(x)] == [("frozen", False)]


def test_a_spike_is_found_and_bridged() -> None:
    x = window()
    x[FLOW, 33] = 120
    assert judged(x) == [(FLOW, "jump", 33, 33, True)]
    assert abs(JUDGE.judge(x[None]).windows[0, FLOW, 33] - 50) < 10


def test_a_spike_that_the_window_cuts_is_a_spike() -> None:
    for at in (0, STEPS - 1):
        x = window()
        x[FLOW, at] = 120
        assert judged(x) == [(FLOW, "jump", at, at, True)]


def test_a_ramp_beyond_the_range_is_told_and_left_to_the_model() -> None:
    x = window()
    x[FLOW] += np.arange(STEPS) * 2
    found = judged(x)
    assert [(kind, masked) for _, kind, _, _, masked in found] == [("range", False)]
    assert JUDGE.judge(x[None]).beyond[0, FLOW]
    np.testing.assert_array_equal(JUDGE.judge(x[None]).windows[0], x)


def test_a_wrong_unit_is_no_measurement() -> None:
    """Bar sent as millibar; its noise is a thousand times too large as well."""
    x = window()
    x[FLOW] *= 1000
    assert judged(x) == [(FLOW, "range", 0, STEPS - 1, True)]
    jumps_there = window()
    jumps_there[FLOW, 20:] *= 1000
    assert judged(jumps_there) == [(FLOW, "range", 20, STEPS - 1, True)]


def test_swapped_sensors_are_noticed() -> None:
    x = window()
    x[[FLOW, COARSE]] = x[[COARSE, FLOW]]
    assert {channel for channel, *_ in judged(x)} >= {COARSE}


def test_a_signal_without_its_noise_is_told() -> None:
    x = window()
    x[FLOW] = (50 + 0.001 * np.arange(STEPS)).astype(np.float32)
    assert [(kind, masked) for _, kind, _, _, masked in judged(x)] == [("noise", False)]


def test_missing_samples_are_missing_and_nothing_else() -> None:
    x = window()
    x[FLOW, 10:50] = np.nan
    assert judged(x) == []
    x[FLOW] = np.nan
    assert judged(x) == []


def test_a_window_is_judged_the_same_in_every_batch() -> None:
    rng = np.random.default_rng(3)
    x = np.stack([window(seed) for seed in range(40)])
    for at in range(0, 40, 3):
        x[at, FLOW, rng.integers(0, 30) :] = rng.choice([-9999, 0, 51.5, 400])
    together = JUDGE.judge(x)
    for at in range(40):
        alone = JUDGE.judge(x[at : at + 1])
        assert alone.findings[0] == together.findings[at]
        assert alone.windows[0].tobytes() == together.windows[at].tobytes()
        assert (alone.unusable[0] == together.unusable[at]).all()


def test_codes_in_train_are_found_and_left_out() -> None:
    x = train()
    x[::10, FLOW, 5] = -9999
    x[::5, COUNT, 7] = 250  # a code of the plant's own: repeated, and far from everything else
    rules = Plausibility.fit(Cases.from_arrays(x), np.arange(CASES) % 2, 2)
    assert (rules.codes[FLOW], rules.codes[COUNT]) == ((-9999.0,), (250.0,))
    assert rules.high[COUNT] == 8
    clean = without_codes(Cases.from_arrays(x), rules.codes)
    assert (~clean.mask).sum() == 12 + 24
    found = Judge.for_windows(rules, STEPS).judge(x[:1]).findings[0]
    assert [one.kind for one in found] == ["sentinel", "sentinel"]


def test_rare_but_real_values_are_no_codes() -> None:
    values = np.random.default_rng(0).normal(0, 1, 1000).astype(np.float32)
    assert find_codes(np.append(values, np.full(3, 6, np.float32))) == ()
    assert find_codes(np.arange(100, dtype=np.float32) % 2) == ()
    assert find_codes(np.zeros(0, np.float32)) == ()


def test_a_fault_that_gets_worse_than_in_train_is_not_unusual_for_its_own_class() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0, 1, (100, 1, STEPS))
    y = np.arange(100) % 2
    x[y == 1] += 4
    cases = Cases.from_arrays(x)
    rules, normalizer = Plausibility.fit(cases, y, 2), Normalizer.fit(cases)
    assert (rules.rises.tolist(), rules.falls.tolist()) == ([[False], [True]], [[True], [False]])
    worse = normalizer.apply(Cases.from_arrays(np.full((1, 1, STEPS), 11.0)))
    assert normalizer.outside(worse) == 1
    assert rules.unexplained(normalizer, worse, np.array([1])) == 0
    assert rules.unexplained(normalizer, worse, np.array([0])) == 1


def test_a_little_beyond_trains_range_is_another_recording_and_far_beyond_is_unusual() -> None:
    rng = np.random.default_rng(0)
    cases = Cases.from_arrays(rng.uniform(0, 10, (100, 1, STEPS)))
    rules, normalizer = Plausibility.fit(cases, np.arange(100) % 2, 2), Normalizer.fit(cases)
    beyond = [12.0, 13.0, -2.0, -3.0]  # a quarter of the range is 2.5
    windows = normalizer.apply(Cases.from_arrays(np.full((4, 1, STEPS), 1.0) * np.array(beyond)[:, None, None]))
    assert normalizer.outside(windows).tolist() == [1, 1, 1, 1]
    assert rules.unexplained(normalizer, windows, np.zeros(4, np.int64)).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("level", "found"), [(50.0, ["noise"]), (100.0, [])])
def test_a_sensor_at_the_end_of_its_range_has_no_noise_and_is_well(level: float, found: list[str]) -> None:
    rng = np.random.default_rng(0)
    x = np.clip(rng.normal(50, 20, (60, 1, STEPS)), 0, 100).astype(np.float32)
    rules = Plausibility.fit(Cases.from_arrays(x), np.arange(60) % 2, 2)
    quiet = np.full((1, 1, STEPS), level, np.float32) + np.float32(1e-4) * np.arange(STEPS, dtype=np.float32)
    findings = Judge.for_windows(rules, STEPS).judge(quiet).findings[0]
    assert [one.kind for one in findings if one.kind == "noise"] == found


def test_a_channel_is_dispensable_if_the_labels_do_not_change_without_it() -> None:
    x = train()[:, :2]
    rules = Plausibility.fit(Cases.from_arrays(x), np.arange(CASES) % 2, 2)
    above = find_dispensable(
        lambda cases: (cases.x[:, 0].mean(axis=1) > 50).astype(np.int64), Cases.from_arrays(x), rules.mean
    )
    assert above.tolist() == [False, True]


def test_the_facts_are_the_same_after_a_round_through_json() -> None:
    again = Plausibility.from_dict(parse_json(dump_json(RULES.to_dict()), "x"), channels=6, classes=2)
    assert again.to_dict() == RULES.to_dict()


def test_stored_facts_that_do_not_fit_are_refused() -> None:
    stored = RULES.to_dict()
    changes: tuple[dict[str, object], ...] = (
        {"low": [1.0]},
        {"codes": []},
        {"low": [1e9] * 6},
        {"change": [-1.0] * 6},
        {"rises": [[True] * 6]},
    )
    for change in changes:
        with pytest.raises(ModelError, match=r"plausibility\.json"):
            Plausibility.from_dict(stored | change, channels=6, classes=2)


def test_a_finding_names_the_last_value() -> None:
    x = window()
    x[FLOW, 10:12] = -9999
    assert JUDGE.judge(x[None]).findings == ((Finding(FLOW, "sentinel", 10, 11, 2, -9999.0, masked=True),),)
