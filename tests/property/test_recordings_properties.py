"""What holds for any recording: windows lie on the agent's grid, labels are majorities, the parts never touch."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anchormoe.data.recording_config import ChannelConfig, LabelConfig, RecordingConfig, SplitConfig, WindowConfig
from anchormoe.data.recordings import RecordingSet, split_windows
from anchormoe.data.resampling import UNLABELLED, Samples, cut_windows, majority, resample
from anchormoe.data.splitting import group_overlapping, overlaps_any, split_by_time
from anchormoe.errors import DataError
from anchormoe.windows import ends_between

SECOND = 1_000_000_000


def settings(length: int, hop: int, *, by: str = "recording") -> RecordingConfig:
    window = WindowConfig(period_s=1.0, length=length, hop=hop, min_coverage=0.0)
    split = SplitConfig(by=by)  # type: ignore[arg-type]  # hypothesis draws one of the names
    return RecordingConfig("time", {"a": ChannelConfig()}, LabelConfig("state"), window, split, asset="folder")


@st.composite
def recordings(draw: st.DrawFn, name: str = "r") -> Samples:
    """Up to 60 samples in file order, in any order of time, some in the same slot, some without value or label."""
    count = draw(st.integers(1, 60))
    start = draw(st.integers(-100, 100))
    places = draw(st.lists(st.integers(0, 70), min_size=count, max_size=count))
    labels = draw(st.lists(st.integers(UNLABELLED, 2), min_size=count, max_size=count))
    missing = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    times = (np.array(places, dtype=np.int64) + start) * SECOND
    values = np.where(missing, np.nan, np.arange(count, dtype=float))[:, None]
    return Samples(name, "rig", times, values, np.array(labels, dtype=np.int64))


@given(recordings(), st.integers(1, 12), st.integers(1, 12))
def test_windows_are_those_of_the_agent(samples: Samples, one: int, two: int) -> None:
    config = settings(max(one, two), min(one, two))
    recording = resample(samples, config)
    found = cut_windows(recording, config, ("x", "y", "z"))
    allowed = ends_between(
        recording.start + config.window.length - 1, recording.start + len(recording.steps), config.window.hop
    )
    assert set(found.ends.tolist()) <= set(allowed)
    assert found.mask.any(axis=(1, 2)).all()
    for end, values, mask in zip(found.ends, found.values, found.mask, strict=True):
        first = end - config.window.length - recording.start
        steps = recording.steps[first : first + config.window.length, 0]
        assert np.array_equal(mask[0], ~np.isnan(steps))
        assert np.array_equal(values[0][mask[0]], steps[mask[0]])


@given(recordings())
def test_of_two_samples_in_a_slot_the_later_row_with_a_value_wins(samples: Samples) -> None:
    recording = resample(samples, settings(4, 2))
    expected: dict[int, float] = {}
    for time, value in zip(samples.times_ns, samples.values[:, 0], strict=True):
        if not np.isnan(value):
            expected[int(time // SECOND)] = float(value)
    filled = np.flatnonzero(~np.isnan(recording.steps[:, 0]))
    assert {int(at) + recording.start: float(recording.steps[at, 0]) for at in filled} == expected


@given(st.lists(st.integers(UNLABELLED, 3), min_size=1, max_size=12))
def test_a_majority_is_the_most_frequent_label_and_the_latest_of_equals(codes: list[int]) -> None:
    known = [code for code in codes if code != UNLABELLED]
    found = int(majority(np.array([codes]), 4)[0])
    if not known:
        assert found == UNLABELLED
        return
    last_seen = {code: at for at, code in enumerate(codes)}
    assert found == max(known, key=lambda code: (known.count(code), last_seen[code]))


@given(
    st.lists(recordings(), min_size=2, max_size=4),
    st.sampled_from(["time", "recording"]),
    st.integers(2, 8),
    st.integers(1, 4),
)
def test_no_step_of_time_of_an_asset_is_in_both_parts(pieces: list[Samples], by: str, length: int, hop: int) -> None:
    config = settings(length, min(hop, length), by=by)
    # Every sample carries its own time, so a value that both parts hold would be a leak.
    timed = [
        Samples(f"r{at}", "rig", one.times_ns, (one.times_ns / SECOND + 1000)[:, None], one.labels)
        for at, one in enumerate(pieces)
    ]
    archive = RecordingSet(
        tuple(sorted((resample(one, config) for one in timed), key=lambda one: one.start)), ("a", "b", "c")
    )
    try:
        split = split_windows("x", archive, config)
    except DataError:
        return
    train = set(split.train.cases.x[split.train.cases.mask].tolist())
    assert not train & set(split.test.cases.x[split.test.cases.mask].tolist())
    if split.mixed is not None:
        assert not train & set(split.mixed.cases.x[split.mixed.cases.mask].tolist())


@given(st.lists(st.integers(0, 200), min_size=1, max_size=40), st.integers(1, 20), st.floats(0.05, 0.95))
def test_a_split_by_time_keeps_a_window_between_the_parts(ends: list[int], length: int, share: float) -> None:
    array = np.array(ends)
    train, test = split_by_time(array, length=length, test_share=share)
    assert train.any()
    if test.any():
        assert (array[test] - length).min() - array[train].max() >= length


@given(st.lists(st.integers(0, 60), max_size=12), st.lists(st.integers(0, 60), max_size=12), st.integers(1, 9))
def test_overlap_is_found_exactly(ends: list[int], others: list[int], length: int) -> None:
    found = overlaps_any(np.array(ends, dtype=np.int64), np.array(others, dtype=np.int64), length)
    assert found.tolist() == [any(abs(end - other) < length for other in others) for end in ends]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(1, 10)), min_size=1, max_size=8))
def test_spans_of_an_asset_that_overlap_share_a_group(drawn: list[tuple[str, int, int]]) -> None:
    spans = [(asset, start, start + size) for asset, start, size in drawn]
    groups = group_overlapping(spans)
    for i, (asset, start, stop) in enumerate(spans):
        for j, (other, begin, end) in enumerate(spans):
            if asset == other and max(start, begin) < min(stop, end):
                assert groups[i] == groups[j]
            if groups[i] == groups[j]:
                assert asset == other
