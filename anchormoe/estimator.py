"""AnchorMoEClassifier: fit, predict, explain, save and load, with the interface of scikit-learn and aeon."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anchormoe.bundle import store as bundle
from anchormoe.cases import Cases, Float64, Int64
from anchormoe.data.dataset import Dataset
from anchormoe.errors import DataError, ModelError
from anchormoe.model.prediction import Prediction
from anchormoe.predictor import Predictor
from anchormoe.progress import ProgressCallback, silent
from anchormoe.recipes.fit import FittedModel, fit_model
from anchormoe.recipes.pack import build_predictor, pack_bundle
from anchormoe.recipes.settings import RecipeSettings
from anchormoe.training.devices import resolve_device
from anchormoe.training.run_checkpoints import RunCheckpoints
from anchormoe.training.task import FitTask

_PARAMETERS = ("recipe", "profile", "objective", "alignment", "class_weight", "channel_dropout", "device",
               "random_state")  # fmt: skip


class AnchorMoEClassifier:
    """X is (cases, channels, steps), (cases, steps), or a list of (channels, steps_i); NaN is missing.

    After `fit` or `load`: `classes_`, `n_classes_`, `predictor_`; after `fit` also `report_`.
    """

    _estimator_type = "classifier"

    def __init__(
        self, recipe: str = "joint", profile: str = "balanced", objective: str = "accuracy",
        alignment: str = "aligned", class_weight: str = "auto", channel_dropout: int = 0,
        device: str = "cpu", random_state: Any = None,
    ) -> None:  # fmt: skip
        self.recipe = recipe
        self.profile = profile
        self.objective = objective
        self.alignment = alignment
        self.class_weight = class_weight
        self.channel_dropout = channel_dropout
        self.device = device
        self.random_state = random_state

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _PARAMETERS}

    def set_params(self, **params: Any) -> Self:
        for name, value in params.items():
            if name not in _PARAMETERS:
                raise ValueError(f"unknown parameter {name!r}; known are {', '.join(_PARAMETERS)}")
            setattr(self, name, value)
        return self

    def fit(
        self, X: Any, y: ArrayLike, groups: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
        progress: ProgressCallback = silent, checkpoint_dir: Path | str | None = None,
    ) -> Self:  # fmt: skip
        """With `groups` (recordings, assets, people) everything is chosen leave-group-out. Raises DataError.

        Finished stages are stored in `checkpoint_dir`; after an interruption, the same call resumes from them and ends
        with the same model. They are removed when the fit is complete.
        """
        cases = Cases.from_arrays(X)
        self.classes_, labels = _classes(y)
        self._train = _dataset(cases, np.asarray(labels, np.int64), self.classes_, self.alignment)
        task = FitTask(
            cases, self._train.y, len(self.classes_), groups=_group_numbers(groups, len(cases)),
            sample_weight=None if sample_weight is None else np.asarray(sample_weight, np.float64),
            seed=_seed(self.random_state), progress=progress, device=resolve_device(self.device),
        )  # fmt: skip
        directory = None if checkpoint_dir is None else Path(checkpoint_dir)
        self._fitted: FittedModel | None = _fit_resumably(task, self._settings(), directory)
        self.report_ = self._fitted.report
        self.predictor_ = build_predictor(self._fitted, self._train)
        return self

    @property
    def n_classes_(self) -> int:
        return len(self.classes_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each case, also where the model would abstain."""
        label = self.explain(X).label
        return np.asarray(self.classes_[label])

    def predict_proba(self, X: Any) -> Float64:
        """(N, Y), in the order of `classes_`."""
        return self.explain(X).probabilities

    def explain(self, X: Any) -> Prediction:
        """Scores with the evidence that adds up to them; implausible samples count as missing, as in the live agent."""
        if not hasattr(self, "predictor_"):
            raise ModelError("this classifier is not fitted: call fit or load first")
        return self.predictor_.predict_plausible(Cases.from_arrays(X))

    def score(self, X: Any, y: ArrayLike) -> float:
        """Accuracy. The classes of a loaded classifier are names, so other labels are compared as strings."""
        known = np.asarray(y)
        return float(np.mean(self.predict(X) == (known.astype(str) if self.classes_.dtype.kind == "U" else known)))

    def save(self, directory: Path | str, *, name: str = "model", version: str = "1", force: bool = False) -> str:
        """Writes a bundle and returns its digest. Raises ModelError if the directory exists or nothing was fitted."""
        if getattr(self, "_fitted", None) is None:
            raise ModelError("only a classifier that was fitted can be saved: call fit first")
        assert self._fitted is not None
        return bundle.write_bundle(
            Path(directory), pack_bundle(self._fitted, self._train, name=name, version=version), force=force
        )

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "cpu") -> Self:
        """A classifier that predicts; its classes are the bundle's class names."""
        predictor = Predictor.load(directory, device=resolve_device(device))
        self = cls(recipe=predictor.config.recipe, alignment=predictor.config.alignment, device=device)
        self._fitted, self.predictor_ = None, predictor
        self.classes_ = np.array(predictor.config.classes)
        return self

    def _settings(self) -> RecipeSettings:
        return RecipeSettings(
            recipe=self.recipe,  # type: ignore[arg-type]  # RecipeSettings refuses unknown names
            profile=self.profile,  # type: ignore[arg-type]
            objective=self.objective,  # type: ignore[arg-type]
            alignment=self.alignment,  # type: ignore[arg-type]
            class_weight=self.class_weight,  # type: ignore[arg-type]
            channel_dropout=self.channel_dropout,
            device=self.device,
        )

    def __sklearn_tags__(self) -> Any:
        """Called by scikit-learn's model selection only, so nothing else needs scikit-learn."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        inputs = InputTags(two_d_array=True, three_d_array=True, allow_nan=True)
        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=inputs,
        )


def _fit_resumably(task: FitTask, settings: RecipeSettings, directory: Path | None) -> FittedModel:
    if directory is None:
        return fit_model(task, settings)
    run = RunCheckpoints(directory, task, settings.to_dict(), resume=RunCheckpoints.exist(directory))
    fitted = fit_model(replace(task, checkpoints=run.for_seed(task.seed)), settings)
    if not fitted.interrupted:
        run.remove()
    return fitted


def _seed(random_state: Any) -> int:
    """An integer, or one from a numpy generator; without either 0, so that fits are repeatable."""
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if random_state is not None and (not isinstance(random_state, int | np.integer) or random_state < 0):
        raise DataError(f"random_state: expected a whole number of at least 0 or a generator, not {random_state!r}")
    return int(random_state or 0)


def _dataset(cases: Cases, y: Int64, classes: NDArray[Any], alignment: str) -> Dataset:
    if len(y) != len(cases):
        raise DataError(f"{len(cases)} cases, but {len(y)} labels")
    return Dataset(
        name="arrays",
        cases=cases,
        y=y,
        classes=tuple(str(name) for name in classes),
        channels=tuple(f"channel_{index}" for index in range(cases.channels)),
        units=("",) * cases.channels,
        alignment="sliding" if alignment == "sliding" else "aligned",
    )


def _classes(y: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    """The classes in order, and the number of each label."""
    given = np.asarray(y)
    if any(label is None or label != label for label in given.flat):
        raise DataError("y: a label is missing")
    try:
        classes, labels = np.unique(given, return_inverse=True)
    except TypeError as error:
        raise DataError(f"y: labels must be of one kind: {error}") from error
    return classes, labels


def _group_numbers(groups: ArrayLike | None, count: int) -> Int64 | None:
    if groups is None:
        return None
    given = np.asarray(groups)
    if given.shape != (count,):
        raise DataError(f"groups: {count} cases, but groups of shape {given.shape}")
    return np.asarray(np.unique(given, return_inverse=True)[1], np.int64)
