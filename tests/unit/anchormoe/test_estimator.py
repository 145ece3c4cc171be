"""The classifier as data scientists use it: fit, predict, explain, save, load."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from anchormoe import AnchorMoEClassifier
from anchormoe.errors import DataError, ModelError
from anchormoe.progress import Progress


def waves(count: int = 24, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """Slow and fast sine waves on two channels, one of them noise."""
    rng = np.random.default_rng(seed)
    t, y = np.arange(32), np.array(["fast", "slow"])[np.arange(count) % 2]
    speed = np.where(y == "fast", 0.9, 0.3)[:, None]
    signal = np.sin(speed * t + rng.uniform(0, 6, (count, 1))) + 0.1 * rng.normal(size=(count, 32))
    return np.stack([signal, rng.normal(size=(count, 32))], axis=1), y


@pytest.fixture(scope="module")
def fitted() -> AnchorMoEClassifier:
    return AnchorMoEClassifier(recipe="kernel", profile="fast", random_state=0).fit(*waves())


def test_it_learns_and_answers_with_the_labels_it_was_given(fitted: AnchorMoEClassifier) -> None:
    X, y = waves(seed=1)
    assert fitted.score(X, y) >= 0.9
    assert set(fitted.predict(X)) <= {"fast", "slow"}
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)


def test_an_explanation_adds_up(fitted: AnchorMoEClassifier) -> None:
    found = fitted.explain(waves(seed=2)[0])
    np.testing.assert_allclose(found.context + found.contributions.sum(1), found.logits, atol=1e-5)


def test_two_fits_with_one_seed_are_equal(fitted: AnchorMoEClassifier) -> None:
    again = AnchorMoEClassifier(recipe="kernel", profile="fast", random_state=0).fit(*waves())
    X = waves(seed=3)[0]
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()


def test_a_saved_classifier_says_the_same(fitted: AnchorMoEClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "bundle")
    X = waves(seed=4)[0]
    loaded = AnchorMoEClassifier.load(tmp_path / "bundle")
    assert (loaded.predict(X) == fitted.predict(X)).all()
    assert (loaded.explain(X).contributions == fitted.explain(X).contributions).all()
    with pytest.raises(ModelError, match="only a classifier that was fitted can be saved"):
        loaded.save(tmp_path / "other")


def test_a_fit_that_dies_resumes_from_its_finished_stages_and_ends_as_if_it_had_not(tmp_path: Path) -> None:
    class Died(Exception):
        """Nothing catches it, like the end of the process."""

    def die(progress: Progress) -> None:
        if progress.stage == "kernel folds" and progress.done == 2:
            raise Died

    X, y = waves(80)
    stages: list[str] = []
    classifier = AnchorMoEClassifier(recipe="kernel", profile="fast", random_state=3)
    with pytest.raises(Died):
        classifier.fit(X, y, progress=die, checkpoint_dir=tmp_path / "run")
    assert sorted(path.name for path in (tmp_path / "run").rglob("*.safetensors")) == [
        "kernel fold 1.safetensors",
        "kernel fold 2.safetensors",
        "kernel.safetensors",
    ]
    classifier.fit(X, y, progress=lambda one: stages.append(one.stage), checkpoint_dir=tmp_path / "run")
    whole = AnchorMoEClassifier(recipe="kernel", profile="fast", random_state=3).fit(X, y)
    assert "kernel features" not in stages  # the kernel fit itself was finished
    assert (classifier.predict_proba(X) == whole.predict_proba(X)).all()
    assert classifier.report_ == whole.report_
    assert not (tmp_path / "run").exists()


def test_checkpoints_of_other_data_are_not_resumed(tmp_path: Path) -> None:
    def die(progress: Progress) -> None:
        if progress.stage == "kernel folds":
            raise ValueError("died")

    X, y = waves(80)
    classifier = AnchorMoEClassifier(recipe="kernel", profile="fast")
    with pytest.raises(ValueError, match="died"):
        classifier.fit(X, y, progress=die, checkpoint_dir=tmp_path)
    with pytest.raises(DataError, match="the checkpoints are of a run with other data"):
        classifier.fit(X + 1, y, checkpoint_dir=tmp_path)
    with pytest.raises(DataError, match="the checkpoints are of a run with other settings"):
        classifier.set_params(alignment="sliding").fit(X, y, checkpoint_dir=tmp_path)


def test_unequal_lengths_and_missing_values_are_welcome() -> None:
    X, y = waves()
    series = [one[:, : 20 + index % 12].copy() for index, one in enumerate(X)]
    series[0][0, 3:6] = np.nan
    classifier = AnchorMoEClassifier(recipe="kernel", profile="fast").fit(series, y)
    assert classifier.predict(series[:3]).shape == (3,)
    assert classifier.predict(X).shape == (24,)


def test_groups_and_weights_are_taken() -> None:
    X, y = waves()
    classifier = AnchorMoEClassifier(recipe="kernel", profile="fast")
    classifier.fit(X, y, groups=np.arange(24) // 4, sample_weight=np.ones(24))
    assert classifier.n_classes_ == 2


def test_parameters_can_be_read_set_and_cloned() -> None:
    from sklearn.base import clone

    classifier = AnchorMoEClassifier(profile="fast").set_params(recipe="kernel")
    assert clone(classifier).get_params() == classifier.get_params()
    with pytest.raises(ValueError, match="unknown parameter 'mood'"):
        classifier.set_params(mood="good")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"y": ["a"] * 24}, "same class"),
        ({"y": ["a", "b"]}, "24 cases, but 2 labels"),
        ({"sample_weight": np.zeros(24)}, "sample_weight"),
        ({"sample_weight": np.ones(3)}, "sample_weight"),
        ({"groups": np.ones(3)}, r"groups: 24 cases, but groups of shape \(3,\)"),
        ({"y": [np.nan, 1.0] * 12}, "y: a label is missing"),
        ({"y": [None, "a"] * 12}, "y: a label is missing"),
        ({"y": np.array([1, "a"] * 12, dtype=object)}, "y: labels must be of one kind"),
    ],
)
def test_what_cannot_be_learnt_is_refused(arguments: dict[str, Any], reason: str) -> None:
    X, y = waves()
    with pytest.raises(DataError, match=reason):
        AnchorMoEClassifier(recipe="kernel", profile="fast").fit(X, **({"y": y} | arguments))


def test_model_selection_of_scikit_learn_works_with_it() -> None:
    from sklearn.base import is_classifier
    from sklearn.model_selection import GridSearchCV, cross_val_score

    X, y = waves()
    classifier = AnchorMoEClassifier(recipe="kernel", profile="fast")
    assert is_classifier(classifier)
    assert cross_val_score(classifier, X, y, cv=2).mean() >= 0.9
    search = GridSearchCV(classifier, {"class_weight": ["none", "balanced"]}, cv=2).fit(X, y)
    assert search.best_estimator_.score(X, y) >= 0.9


@pytest.mark.parametrize("wrong", [-1, "zero", 1.5])
def test_a_random_state_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(DataError, match="random_state: expected a whole number"):
        AnchorMoEClassifier(recipe="kernel", profile="fast", random_state=wrong).fit(*waves())


def test_both_kinds_of_numpys_generators_are_asked_for_a_seed() -> None:
    kinds = (np.random.RandomState(3), np.random.default_rng(3))
    for generator in kinds:
        AnchorMoEClassifier(recipe="kernel", profile="fast", random_state=generator).fit(*waves())
    assert kinds[0].randint(2**30) != np.random.RandomState(3).randint(2**30)
    assert kinds[1].integers(2**60) != np.random.default_rng(3).integers(2**60)


def test_a_loaded_classifier_is_scored_by_the_names_of_its_classes(tmp_path: Path) -> None:
    X, y = waves()
    numbers = np.where(y == "fast", 7, 8)
    AnchorMoEClassifier(recipe="kernel", profile="fast").fit(X, numbers).save(tmp_path / "bundle")
    assert AnchorMoEClassifier.load(tmp_path / "bundle").score(X, numbers) >= 0.9


def test_an_unknown_recipe_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="recipe: expected one of paper, experts, kernel, joint"):
        AnchorMoEClassifier(recipe="magic").fit(*waves())


def test_an_unfitted_classifier_says_so() -> None:
    with pytest.raises(ModelError, match="not fitted"):
        AnchorMoEClassifier().predict(waves()[0])


def test_importing_the_package_brings_no_torch() -> None:
    code = "import sys, anchormoe; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_the_package_does_not_have_is_an_attribute_error() -> None:
    import anchormoe

    with pytest.raises(AttributeError, match="Oracle"):
        _ = anchormoe.Oracle


@pytest.mark.slow
def test_the_adapter_passes_aeons_own_checks() -> None:
    from aeon.testing.estimator_checking import check_estimator

    from anchormoe.aeon_adapter import AnchorMoEAeonClassifier

    results = check_estimator(AnchorMoEAeonClassifier)
    assert {name: said for name, said in results.items() if said != "PASSED" and "SKIPPED" not in str(said)} == {}
