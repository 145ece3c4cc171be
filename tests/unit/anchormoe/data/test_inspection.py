"""What an inspection notices."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anchormoe.cases import Cases
from anchormoe.data.dataset import Dataset, Split
from anchormoe.data.inspection import inspect, longest_run, runs, uninformative_channels
from anchormoe.data.inspection_plot import plot_inspection, telling_channels
from anchormoe.data.resampling import Recording
from anchormoe.errors import DataError
from anchormoe.recipes.card_plots import ScoredPredictions, plot_confusion

NAN = np.nan


def dataset(series: list[list[list[float]]], y: list[int], *, groups: list[int] | None = None) -> Dataset:
    channels = len(series[0])
    return Dataset(
        name="tiny",
        cases=Cases.from_arrays([np.array(one, float) for one in series]),
        y=np.array(y, dtype=np.int64),
        classes=("a", "b"),
        channels=tuple(f"c{at}" for at in range(channels)),
        units=("",) * channels,
        groups=None if groups is None else np.array(groups, dtype=np.int64),
    )


TRAIN = dataset([[[1, NAN, NAN, 4], [7, 7, 7, 7]], [[2, 3], [7, 7]], [[2, 3], [7, 7]]], [0, 0, 1])
TEST = dataset([[[2, 3], [7, 7]], [[0, 0], [0, 0]]], [0, 1])


def test_ranges_gaps_and_missing_shares_count_valid_steps_only() -> None:
    first, second = inspect(Split(TRAIN, TEST)).channels
    assert (first.low, first.high, first.mean) == (1, 4, 15 / 6)
    assert (first.missing_train, first.missing_test, first.longest_gap) == (2 / 8, 0, 2)
    assert not first.constant
    assert second.constant


def test_lengths_and_balance() -> None:
    facts = inspect(Split(TRAIN, TEST))
    assert facts.train.lengths == (2, 2, 4)
    assert facts.train.class_counts == {"a": 2, "b": 1}
    assert facts.test.cases == 2


def test_cases_that_are_in_both_parts_are_found_whatever_the_padding() -> None:
    facts = inspect(Split(TRAIN, TEST))
    assert (facts.overlap.in_both, facts.overlap.twice_in_train) == (1, 1)
    assert "1 test cases are also in TRAIN: the test figures will be too good" in facts.notes


def test_remarks_name_constant_and_empty_channels_and_lonely_classes() -> None:
    empty = dataset([[[NAN, NAN], [1, 2]], [[NAN, NAN], [1, 3]]], [0, 1])
    notes = " | ".join((*inspect(Split(TRAIN, TEST)).notes, *inspect(Split(empty, empty)).notes))
    assert "channel c1 is constant (7) in TRAIN" in notes
    assert "channel c0 has no valid value in TRAIN" in notes
    assert "class b has one training case: folds train on what they judge" in notes


def test_one_recording_per_class_is_told_with_its_consequence() -> None:
    def notes(y: list[int], groups: list[int]) -> list[str]:
        x = np.random.default_rng(0).normal(size=(len(y), 2, 8))
        train = dataset(x.tolist(), y, groups=groups)
        return [note for note in inspect(Split(train, train)).notes if "folds" in note]

    assert notes([0, 1] * 12, [at // 2 for at in range(24)]) == []
    (every,) = notes([0] * 12 + [1] * 12, [0] * 12 + [1] * 12)
    assert every.startswith("TRAIN has only 2 recordings: folds leave out blocks of time with gaps around them")
    (one,) = notes([0] * 18 + [1] * 6, [at // 6 for at in range(24)])
    assert one.startswith("class b is in only one recording of TRAIN: folds leave out blocks of time")
    assert "not another recording" in one


def test_a_class_of_few_recordings_among_many_is_told_to_look_too_bad() -> None:
    def notes(*recordings: int) -> list[str]:
        groups = np.repeat(np.arange(sum(recordings)), 10)
        y = np.repeat(np.repeat([0, 1], recordings), 10)
        cases = Cases.from_arrays(np.random.default_rng(0).normal(size=(len(y), 1, 8)))
        ends = np.tile(np.arange(10) * 8, sum(recordings))
        train = Dataset("x", cases, y, ("a", "b"), ("p",), ("",), groups=groups, ends=ends)
        return [note for note in inspect(Split(train, train)).notes if "too low" in note]

    (two,) = notes(6, 2)
    assert two.startswith(
        "class b is in so few recordings that leaving one out takes much of the class out of training"
    )
    assert notes(2, 2) == []  # a fold leaves out one of each
    assert notes(6, 6) == []


def test_a_class_that_is_too_short_for_gaps_is_told_to_look_too_good() -> None:
    x = np.random.default_rng(0).normal(size=(15, 1, 8))
    train = replace(dataset(x.tolist(), [0] * 12 + [1] * 3, groups=[0] * 12 + [1] * 3), ends=np.arange(15) * 4)
    notes = inspect(Split(train, train)).notes
    assert any("class b has 3 training cases, too close in time: folds train on what they judge" in n for n in notes)


def test_a_class_that_only_a_neighbour_spoils_is_told_by_how_much() -> None:
    y = [0] * 8 + [1] * 2 + [0] * 9 + [0] * 19
    x = np.random.default_rng(0).normal(size=(38, 1, 20))
    train = replace(dataset(x.tolist(), y, groups=[0] * 19 + [1] * 19), ends=np.tile(np.arange(19) * 10, 2))
    said = [note for note in inspect(Split(train, train)).notes if "too good" in note]
    assert said[0].startswith("class a: folds train on neighbours in time of 3 of its 36 training cases, because some")
    assert said[1].startswith("class b has 2 training cases, too close in time")


def test_a_rare_class_is_named_where_training_weighs_it() -> None:
    def notes(counts: list[int]) -> list[str]:
        y = np.repeat(np.arange(len(counts)), counts)
        cases = Cases.from_arrays(np.arange(2.0 * len(y)).reshape(len(y), 1, 2))
        train = Dataset("x", cases, y, tuple("abcdefgh"[: len(counts)]), ("p",), ("",))
        return [note for note in inspect(Split(train, train)).notes if "more weight" in note]

    assert notes([46, 4]) == [
        "class b has 8.0% of the training cases; training gives it more weight (class_weight: auto)"
    ]
    assert notes([9, 7, 7, 7, 7, 7, 7, 7]) == []  # an eighth is no rarity among eight


def test_channels_that_tell_nothing_are_named_before_training() -> None:
    x = np.arange(12.0).reshape(2, 3, 2)
    x[:, 1], x[:, 2] = 5, np.nan
    train = Dataset("x", Cases.from_arrays(x), np.array([0, 1]), ("a", "b"), ("p", "q", "r"), ("",) * 3)
    assert uninformative_channels(train) == [
        "channel q is constant (5) in TRAIN",
        "channel r has no valid value in TRAIN",
    ]


def test_recordings_report_their_gaps_and_overlaps() -> None:
    steps = np.array([[1], [NAN], [NAN], [4], [NAN], [6]], np.float32)
    labels = np.zeros(6, np.int64)
    one = Recording("x", "rig", 10, steps, labels, samples=4, same_step=1, out_of_order=2)
    two = Recording("y", "rig", 14, steps, labels, samples=3, same_step=0, out_of_order=0)
    facts = inspect(Split(TRAIN, TEST), (one, two))
    first = facts.recordings[0]
    assert (first.steps, first.gaps, first.longest_gap, first.empty_share) == (6, 2, 2, 0.5)
    known = "recordings x and y overlap by 2 steps"
    assert f"{known}: they form one group; if one is TEST, windows that overlap it are left out of TRAIN" in facts.notes
    assert any("2 timestamps go backwards" in note for note in facts.notes)


def test_runs_are_half_open() -> None:
    flags = np.array([True, True, False, True])
    assert runs(flags) == [(0, 2), (3, 4)]
    assert longest_run(flags) == 2
    assert longest_run(np.zeros(3, bool)) == 0


@pytest.mark.parametrize("recordings", [False, True])
def test_a_page_is_drawn_even_for_odd_data(tmp_path: Path, recordings: bool) -> None:
    steps = np.array([[1, 2], [NAN, NAN], [3, 4]], np.float32)
    one = Recording("x", "rig", 0, steps, np.array([0, -1, 1]), samples=2, same_step=0, out_of_order=0)
    split = Split(TRAIN, TEST)
    seen = (one,) if recordings else ()
    plot_inspection(tmp_path / "page.png", split, inspect(split, seen), seen)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_names_with_dollar_signs_are_no_formulas(tmp_path: Path) -> None:
    steps = np.array([[1, 2], [3, 4]], np.float32)
    one = Recording("$_{$", "rig", 0, steps, np.array([0, 1]), samples=2, same_step=0, out_of_order=0)
    train, test = (
        replace(part, name="$^$", classes=("n$_{$", "b"), channels=("$\\x$", "p"), units=("$/h$^", ""))
        for part in (TRAIN, TEST)
    )
    split = Split(train, test)
    for seen in ((), (one,)):
        plot_inspection(tmp_path / "page.png", split, inspect(split, seen), seen)
    scored = ScoredPredictions("TEST", np.eye(2), np.array([0, 1]))
    assert plot_confusion([scored], train.classes)[:4] == b"\x89PNG"


def test_a_dataset_that_does_not_fit_together_is_refused() -> None:
    with pytest.raises(DataError, match="labels outside the 2 classes"):
        dataset([[[1.0, 2.0]]], [2])
    with pytest.raises(DataError, match=r"1 cases, labels of shape \(2,\)"):
        dataset([[[1.0, 2.0]]], [0, 1])


def test_a_subset_takes_everything_that_belongs_to_its_cases() -> None:
    part = dataset([[[1.0]], [[2.0]], [[3.0]]], [0, 1, 0], groups=[4, 5, 6]).subset([2, 0])
    assert part.cases.x.ravel().tolist() == [3, 1]
    assert part.y.tolist() == [0, 0]
    assert part.groups is not None
    assert part.groups.tolist() == [6, 4]


def test_of_many_channels_those_are_drawn_that_tell_the_classes_apart() -> None:
    """Channel 17 by its level, channel 3 by its spread; the other 18 are noise."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(60, 20, 16)), np.arange(60) % 2
    x[y == 1, 17] += 3
    x[y == 1, 3] *= 4
    train = Dataset(
        "many", Cases.from_arrays(x.astype(np.float32)), y, ("a", "b"), tuple(f"c{at}" for at in range(20)), ("",) * 20
    )
    assert telling_channels(train, 2) == [3, 17]
    assert telling_channels(train, 20) == list(range(20))
