"""The synthetic sets hold what the paper says, and their truth marks the class motifs only."""

import numpy as np
import pytest

from anchormoe.data.synthetic import CLASS_OFFSETS, DESIGNS, generate, load_synthetic, motif_shape
from anchormoe.errors import DataError


@pytest.mark.parametrize("name", sorted(DESIGNS))
def test_a_set_has_the_sizes_of_the_paper(name: str) -> None:
    split = load_synthetic(name, seed=0)
    assert split.train.cases.x.shape == (900, 4, 128)
    assert split.test.cases.x.shape == (300, 4, 128)
    assert split.train.truth is not None
    assert split.train.truth.shape == (900, 4, 128)
    assert set(split.train.y.tolist()) == {0, 1, 2}


def test_the_same_seed_gives_the_same_cases_and_another_seed_others() -> None:
    first, again, other = (load_synthetic("distractor", seed=seed).test.cases.x for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_train_is_drawn_with_the_seed_plus_one_and_test_with_the_seed_plus_two() -> None:
    split = load_synthetic("localized", seed=5)
    np.testing.assert_array_equal(split.train.cases.x, generate(DESIGNS["localized"], 900, seed=6).x)
    np.testing.assert_array_equal(split.test.cases.x, generate(DESIGNS["localized"], 300, seed=7).x)


def test_one_motif_marks_sixteen_steps_on_the_channel_of_its_class() -> None:
    drawn = generate(DESIGNS["localized"], 60, seed=0)
    assert (drawn.truth.sum((1, 2)) == 16).all()
    channels = drawn.truth.any(2).argmax(1)
    np.testing.assert_array_equal(channels, np.array([0, 1, 0])[drawn.y])


def test_two_motifs_lie_in_the_two_halves() -> None:
    truth = np.asarray(generate(DESIGNS["composition"], 60, seed=0).truth.any(1))
    assert (truth[:, :60].sum(1) == 16).all()
    assert (truth[:, 68:120].sum(1) == 16).all()


def test_without_noise_a_distractor_is_not_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchormoe.data.synthetic.NOISE", 0.0)
    drawn = generate(DESIGNS["multi-distractor"], 40, seed=0)
    unmarked = np.abs(np.where(drawn.truth, 0, drawn.x)).max((1, 2))
    assert (unmarked > 2).mean() > 0.9


def test_the_context_sets_shift_their_last_channel_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchormoe.data.synthetic.NOISE", 0.0)
    drawn = generate(DESIGNS["localized"], 40, seed=0)
    expected = np.array(CLASS_OFFSETS, np.float32)[drawn.y]
    np.testing.assert_array_equal(np.median(drawn.x[:, -1], axis=1), expected)


def test_the_shapes_are_those_of_the_release() -> None:
    assert motif_shape(0)[4] == pytest.approx(1.0)
    np.testing.assert_array_equal(motif_shape(1)[1:8], np.ones(7))
    assert motif_shape(2).tolist()[:3] == [0.0, 0.125, 0.25]
    assert motif_shape(3)[8] == 1.0
    assert motif_shape(4)[2] == pytest.approx(1.0)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="multi-distractor"):
        load_synthetic("easy", seed=0)
