"""Channel dropout: what copies lack, who may judge them, and when a missing channel is no reason to be silent."""

import json
from pathlib import Path

import numpy as np
import pytest

from anchormoe import AnchorMoEClassifier, Predictor
from anchormoe.cases import Cases
from anchormoe.errors import DataError, ModelError
from anchormoe.model.abstention import Abstention
from anchormoe.recipes.channel_dropout import COMPLETE, accuracy_by_missing_channel, add_copies
from anchormoe.training.task import FitTask


def training(groups: list[int] | None = None, channels: int = 3) -> FitTask:
    cases = Cases.from_arrays(np.arange(1.0, 6 * channels * 2 + 1).reshape(6, channels, 2))
    y, numbers = np.array([0, 0, 0, 1, 1, 1]), None if groups is None else np.array(groups)
    return FitTask(cases, y, 2, groups=numbers, sample_weight=np.arange(6, dtype=np.float64))


def test_each_copy_lacks_one_channel_and_every_class_lacks_every_channel() -> None:
    more, lacking = add_copies(training(), 1)
    assert lacking.tolist() == [COMPLETE] * 6 + [0, 1, 2, 0, 1, 2]
    assert more.cases.mask[:6].all()
    for copy, channel in zip(range(6, 12), [0, 1, 2, 0, 1, 2], strict=True):
        assert not more.cases.mask[copy, channel].any()
        assert not more.cases.x[copy, channel].any()
        assert more.cases.mask[copy].sum() == 4
    assert more.y.tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert more.sample_weight is not None
    assert more.sample_weight.tolist() == [0, 1, 2, 3, 4, 5] * 2


def test_several_copies_of_a_case_lack_different_channels() -> None:
    lacking = add_copies(training(), 2)[1][6:].reshape(2, 6)
    assert (lacking[0] != lacking[1]).all()


def test_a_copy_shares_the_group_of_its_case() -> None:
    assert add_copies(training(), 1)[0].groups.tolist() == [0, 1, 2, 3, 4, 5] * 2  # type: ignore[union-attr]
    grouped = add_copies(training([7, 7, 8, 8, 9, 10]), 1)[0]
    assert grouped.groups.tolist() == [7, 7, 8, 8, 9, 10] * 2  # type: ignore[union-attr]


def test_without_copies_nothing_changes() -> None:
    given = training()
    more, lacking = add_copies(given, 0)
    assert more is given
    assert accuracy_by_missing_channel(np.zeros((6, 2)), given.y, lacking, 3) == ()


def test_one_channel_is_refused() -> None:
    with pytest.raises(DataError, match="only one channel"):
        add_copies(training(channels=1), 1)


@pytest.mark.parametrize("groups", [None, [0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2]])
def test_no_fold_has_a_case_and_its_copy_on_both_sides(groups: list[int] | None) -> None:
    extended, _ = add_copies(training(groups), 2)
    folds = extended.folds(3)
    for flags in (folds.held_out, folds.trained):
        np.testing.assert_array_equal(flags[:, :6], flags[:, 6:12])
        np.testing.assert_array_equal(flags[:, :6], flags[:, 12:])


def test_an_accuracy_needs_twenty_cases() -> None:
    lacking = np.repeat([COMPLETE, 0, 1], [5, 20, 19])
    y = np.zeros(44, np.int64)
    logits = np.zeros((44, 2))
    logits[10:, 1] = 1  # of the twenty that lack channel 0 the first five are right
    assert accuracy_by_missing_channel(logits, y, lacking, 2) == (0.25, None)


@pytest.mark.parametrize(
    ("missing", "reason"),
    [([True, False, False], None), ([False, True, False], "channel_missing"), ([True, False, True], "channel_missing")],
)
def test_one_channel_may_be_missing_where_the_accuracy_without_it_is_known(
    missing: list[bool], reason: str | None
) -> None:
    rules = Abstention(required=(True, True, True), without=(0.9, None, 0.8))
    assert rules.reasons(np.array([[0.9, 0.1]]), np.zeros(1), np.array([missing])) == (reason,)


@pytest.mark.parametrize("without", [[0.5], [0.5, 2.0, 0.1], "none", [True, None, None]])
def test_a_damaged_stored_form_is_refused(without: object) -> None:
    stored = Abstention(required=(True, True, True)).to_dict() | {"without": without}
    with pytest.raises(ModelError, match="without"):
        Abstention.from_dict(stored, 3)


def test_a_bundle_from_before_channel_dropout_is_read() -> None:
    stored = Abstention(required=(True,)).to_dict()
    del stored["without"]
    assert Abstention.from_dict(stored, 1).without == ()


def waves(count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Three channels of which any two tell the class by their level."""
    rng, y = np.random.default_rng(0), np.arange(count) % 2
    return rng.normal(size=(count, 3, 24)) + (2 * y - 1)[:, None, None], y


def test_a_model_with_channel_dropout_answers_without_a_channel_and_its_card_says_how_well(tmp_path: Path) -> None:
    x, y = waves()
    holes = x.copy()
    holes[:, 1] = np.nan
    plain = AnchorMoEClassifier("kernel", "fast", random_state=0).fit(x, y)
    assert set(plain.explain(holes).abstention) == {"channel_missing"}
    robust = AnchorMoEClassifier("kernel", "fast", channel_dropout=1, random_state=0).fit(x, y)
    assert "channel_missing" not in robust.explain(holes).abstention
    assert robust.score(holes, y) > 0.9
    robust.save(tmp_path / "bundle")
    loaded = Predictor.load(tmp_path / "bundle").model.abstention
    assert loaded == robust.predictor_.model.abstention
    assert all(accuracy is not None and accuracy > 0.9 for accuracy in loaded.without)
    assert "| channel_1 | " in (tmp_path / "bundle" / "MODEL_CARD.md").read_text()
    figures = json.loads((tmp_path / "bundle" / "manifest.json").read_text())["metrics"]["out_of_fold"]
    assert list(figures["accuracy_without_channel"]) == ["channel_0", "channel_1", "channel_2"]
