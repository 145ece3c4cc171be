"""The classifier as an aeon estimator, for aeon's pipelines, checks and benchmarks."""

from typing import Any, ClassVar

import numpy as np
from aeon.classification.base import BaseClassifier
from numpy.typing import NDArray

from anchormoe.estimator import AnchorMoEClassifier


class AnchorMoEAeonClassifier(BaseClassifier):  # type: ignore[misc]  # aeon has no types
    """Parameters are those of AnchorMoEClassifier; the fitted one is `classifier_`."""

    _tags: ClassVar[dict[str, Any]] = {
        "capability:multivariate": True,
        "capability:unequal_length": True,
        "capability:missing_values": True,
        "X_inner_type": ["np-list", "numpy3D"],
        "algorithm_type": "hybrid",
        "python_dependencies": ["torch"],
    }

    def __init__(
        self, recipe: str = "joint", profile: str = "balanced", objective: str = "accuracy",
        alignment: str = "aligned", class_weight: str = "auto", random_state: int | None = None,
    ) -> None:  # fmt: skip
        self.recipe = recipe
        self.profile = profile
        self.objective = objective
        self.alignment = alignment
        self.class_weight = class_weight
        self.random_state = random_state
        super().__init__()

    def _fit(self, X: Any, y: NDArray[Any]) -> "AnchorMoEAeonClassifier":
        self.classifier_ = AnchorMoEClassifier(
            recipe=self.recipe, profile=self.profile, objective=self.objective, alignment=self.alignment,
            class_weight=self.class_weight, random_state=self.random_state,
        ).fit(X, y)  # fmt: skip
        return self

    def _predict(self, X: Any) -> NDArray[Any]:
        return self.classifier_.predict(X)

    def _predict_proba(self, X: Any) -> NDArray[np.float64]:
        return self.classifier_.predict_proba(X)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return {"recipe": "kernel", "profile": "fast", "random_state": 0}
