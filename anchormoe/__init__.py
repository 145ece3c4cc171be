"""The AnchorMoE model library: data, model, training, explanation and bundles. Works alone."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anchormoe.estimator import AnchorMoEClassifier
    from anchormoe.model.prediction import Prediction
    from anchormoe.predictor import Predictor

__all__ = ["AnchorMoEClassifier", "Prediction", "Predictor"]

_HOMES = {
    "AnchorMoEClassifier": "anchormoe.estimator",
    "Prediction": "anchormoe.model.prediction",
    "Predictor": "anchormoe.predictor",
}


def __getattr__(name: str) -> Any:
    """Public names are imported at first use, so that `import anchormoe` is cheap and does not import torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'anchormoe' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
