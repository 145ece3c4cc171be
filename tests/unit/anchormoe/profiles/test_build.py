"""Expert profiles of a small model whose evidence is known, and the segments they are made of."""

from dataclasses import replace

import numpy as np
import pytest

from anchormoe.profiles.build import TrainCases, build_profiles, choose_cases, choose_prototypes
from anchormoe.profiles.candidates import PER_GROUP, Candidates
from anchormoe.profiles.normal import NORMAL_NAMES
from anchormoe.profiles.segments import POINTS, UNKNOWN_RECORDING, leading_run, look_at, shorten
from tests.support.expert_profiles import PERIOD_NS, facts, linear_predictor, linear_profiles, train_cases


def test_a_profile_says_where_an_expert_speaks_for_which_classes_and_how_far_it_was_right() -> None:
    predictor, train = linear_predictor(), train_cases()
    found = predictor.predict_cases(train.cases)
    even = linear_profiles().experts[0]
    evidence = found.expert_evidence[..., 0]
    assert even.name == "linear/even"
    assert even.share == pytest.approx(0.75)
    by_term = np.abs(evidence).sum(axis=(0, 1))
    assert [term.channels for term in even.terms] == [(int(np.argmax(by_term)),), (int(np.argmin(by_term)),)]
    assert even.terms[0].share == pytest.approx(by_term.max() / by_term.sum())
    for label in range(3):
        own = evidence[found.label == label].sum(axis=(1, 2))
        assert even.support[label] == (None if not len(own) else pytest.approx(own.mean(), rel=1e-5))
    added = np.maximum(evidence.sum(axis=(1, 2)), 0)
    assert even.right == pytest.approx(added[train.right].sum() / added.sum())
    assert (even.chosen, even.reliability, even.judged) == (1.0, None, "out-of-fold")


def test_profiles_do_not_depend_on_how_the_cases_are_cut_into_batches() -> None:
    one, other = linear_profiles(rows=3), linear_profiles(rows=12)
    for name, tensor in one.tensors().items():
        np.testing.assert_array_equal(tensor, other.tensors()[name])
    for a, b in zip(one.experts, other.experts, strict=True):
        assert (a.title, a.shape, a.prototypes) == (b.title, b.shape, b.prototypes)


def test_a_prototype_is_the_segment_an_expert_spoke_loudest_on() -> None:
    profiles, train = linear_profiles(), train_cases()
    for number, expert in enumerate(profiles.experts):
        own = profiles.segments.take(np.flatnonzero(profiles.segments.expert == number))
        row = expert.prototypes[0]
        assert abs(profiles.segments.contribution[row]) == np.abs(own.contribution).max()
        case = int(profiles.segments.case[row]) // 10
        start, stop = int(profiles.segments.start[row]), int(profiles.segments.stop[row])
        channel = int(profiles.segments.channel[row])
        part = slice(start, stop)
        short = shorten(train.cases.x[case, channel, part], train.cases.mask[case, channel, part])
        np.testing.assert_array_equal(profiles.segments.values[row], short)
        assert profiles.segments.label[row] == train.y[case]
        assert profiles.recordings[profiles.segments.recording[row]] == f"recording-{case % 3}"
        assert profiles.segments.start_ns[row] == case * 1_000_000_000 + start * PERIOD_NS
        assert len({int(profiles.segments.case[one]) for one in expert.prototypes}) == len(expert.prototypes)


def test_the_same_stretch_of_a_recording_is_one_prototype_however_many_windows_show_it() -> None:
    """Steps of a second: 8 of them at 0 s, at 4 s (overlaps), at 8 s, elsewhere, and in another channel."""
    own = linear_profiles().segments.take(np.zeros(6, np.int64))
    second = 1_000_000_000
    own = replace(
        own,
        case=np.arange(6),
        start=np.zeros(6, np.int64),
        stop=np.full(6, 8),
        label=np.zeros(6, np.int64),
        recording=np.array([0, 0, 0, 1, 0, 0]),
        channel=np.array([0, 0, 0, 0, 1, 0]),
        start_ns=second * np.array([0, 4, 8, 4, 4, 20]),
    )
    assert choose_prototypes(np.arange(6), own, 1.0) == (0, 2, 3, 4)
    assert choose_prototypes(np.arange(6), own, None) == (0, 1, 2, 3)  # without a period there are no times
    nowhere = replace(own, recording=np.full(6, UNKNOWN_RECORDING))
    assert choose_prototypes(np.arange(6), nowhere, 1.0) == (0, 1, 2, 3)


def test_cases_without_a_valid_value_give_a_profile_without_segments() -> None:
    predictor, train = linear_predictor(), train_cases()
    nothing = np.zeros_like(train.cases.mask)
    empty = TrainCases(
        type(train.cases)(np.zeros_like(train.cases.x), nothing, train.cases.lengths),
        train.y, train.numbers, train.right, out_of_fold=False,
    )  # fmt: skip
    found = build_profiles(empty, predictor.predict_cases, facts(predictor))
    assert (len(found.segments), [expert.prototypes for expert in found.experts]) == (0, [(), ()])
    assert found.experts[0].judged == "TRAIN"
    assert found.experts[0].right is None


def test_names_of_files_become_plain_text() -> None:
    predictor, train = linear_predictor(), train_cases()
    assert train.origins is not None
    train.origins.recordings[:] = "a\x1b[2Jb\u202e"
    found = build_profiles(train, predictor.predict_cases, facts(predictor))
    assert found.recordings == ("a?[2Jb?",)


def test_of_many_cases_each_class_keeps_an_even_spread_and_a_rare_one_all() -> None:
    y = np.array([0] * 1000 + [1] * 10 + [2] * 500)
    chosen = choose_cases(y, 100)
    assert np.bincount(y[chosen]).tolist() == [45, 10, 45]
    assert (np.diff(chosen) > 0).all()
    np.testing.assert_array_equal(choose_cases(y[:5]), np.arange(5))


def test_candidates_added_in_batches_are_those_of_all_at_once() -> None:
    rng = np.random.default_rng(1)
    evidence, y = rng.normal(size=(60, 4, 3, 2)), rng.integers(0, 2, 60)
    whole = Candidates.of(0, evidence, y).strongest(50)
    part = Candidates.of(0, evidence[:7], y[:7]).strongest(50)
    for start in range(7, 60, 9):
        part = part.merged(Candidates.of(start, evidence[start : start + 9], y[start : start + 9])).strongest(50)
    np.testing.assert_array_equal(whole.case, part.case)
    np.testing.assert_array_equal(whole.evidence, part.evidence)
    groups = np.unique(np.stack((whole.expert, whole.term, whole.label)), axis=1, return_counts=True)[1]
    assert len(whole) == 50
    assert groups.max() - groups.min() <= 1
    assert len(Candidates.of(0, evidence, y).strongest()) == sum(
        min(PER_GROUP, int((y == label).sum())) * 6 for label in range(2)
    )


def test_candidates_know_what_the_model_read_in_their_leading_run() -> None:
    by_expert, whole = np.zeros((2, 3, 2, 1)), np.arange(2 * 3 * 2 * 2, dtype=np.float64).reshape(2, 3, 2, 2)
    by_expert[0, :, 0, 0] = 0.1, 2.0, 1.5
    by_expert[1, :, 1, 0] = -4.0, 0.0, 0.0
    found = Candidates.of(7, by_expert, np.array([0, 1]), 2).strongest().with_classes(7, whole)
    assert found.case.tolist() == [8, 7]
    np.testing.assert_array_equal(found.by_class[1], whole[0, 1:3, 0].sum(axis=0))
    np.testing.assert_array_equal(found.by_class[0], whole[1, 0, 1])


def test_the_look_of_a_curve_is_that_of_its_values_and_changes_in_any_order() -> None:
    rising = np.arange(8.0)
    valid = np.ones(8, bool)
    look = look_at(rising, valid)
    assert look is not None
    assert look.tolist() == [*range(8), *[1.0] * 8]
    falling = look_at(rising[::-1], valid)
    assert falling is not None
    assert falling.tolist() == [*range(8), *[-1.0] * 8]
    with_gap = look_at(rising, np.array([True, True, False, True, True, True, True, True]))
    assert with_gap is not None
    assert with_gap[8:].tolist() == [1.0] * 8  # over a gap, the change per step
    assert look_at(rising, valid & (rising < 3)) is None
    assert look_at(rising[:1], valid[:1]) is None
    assert look_at(np.array([3e38, -3e38]), valid[:2]) is None  # the change is not finite


def test_the_leading_run_reaches_over_neighbours_of_half_the_strength() -> None:
    assert leading_run(np.array([0.1, 2.0, 3.0, 1.6, -3.0, 2.9])) == (1, 4)
    assert leading_run(np.array([1.0, 1.0, 1.0])) == (0, 3)
    assert leading_run(np.array([-1.0, 0.2, 0.0])) == (0, 1)


def test_a_curve_is_shortened_to_means_and_a_short_one_is_interpolated() -> None:
    long = np.repeat(np.arange(POINTS, dtype=np.float64), 3)
    means = shorten(long, np.ones(len(long), bool))
    assert means is not None
    np.testing.assert_allclose(means, np.arange(POINTS))
    few = shorten(np.array([0.0, 99.0, 2.0]), np.array([True, False, True]))
    assert few is not None
    assert few[0] == 0.0
    assert few[-1] == pytest.approx(2.0)
    assert (np.diff(few) >= 0).all()
    assert shorten(np.arange(4.0), np.array([True, False, False, False])) is None
    assert shorten(np.full(4, 3e38), np.ones(4, bool)) is not None


def test_the_agent_and_the_library_call_the_same_states_normal() -> None:
    from agent.event_types import NORMAL_STATES

    assert NORMAL_NAMES == NORMAL_STATES
