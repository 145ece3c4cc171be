"""What the features of a fitted source are compared with: the mean of the classes' means, not of all cases. Pure."""

from dataclasses import replace

import numpy as np

from anchormoe.cases import Float64, Int64
from anchormoe.evidence import centred
from anchormoe.kernels.bank import Readout
from anchormoe.kernels.evaluator import transform
from anchormoe.kernels.features import case_chunks
from anchormoe.kernels.quantized import QuantizedCases
from anchormoe.kernels.source import KernelSource, Part


def with_balanced_baseline(source: KernelSource, cases: QuantizedCases, y: Int64) -> KernelSource:
    """The same logits, told as deviations from the mean of the classes' means.

    Compared with the mean of all cases, a frequent class has little evidence and a large intercept: a plant that is
    normal nine tenths of the time would be called normal by its context. Halfway between the classes' means hardly any
    score is left, so what speaks for a class is evidence of a channel.
    """
    parts, intercept = [], source.intercept.copy()
    for part in source.parts:
        mean = balanced_mean(_features(part, cases), y, part.readout.mean)
        intercept += (mean - part.readout.mean) @ part.readout.weights
        parts.append(Part.of(part.bank, Readout(mean, part.readout.weights)))
    return replace(source, intercept=centred(intercept), parts=tuple(parts))


def balanced_mean(features: Float64, y: Int64, otherwise: Float64) -> Float64:
    """(F,) the mean over classes of the means of features (N, F) of their cases; a class without a value is left out.

    `otherwise` (F,) where no class has one.
    """
    known = ~np.isnan(features)
    total, classes = np.zeros(features.shape[1]), np.zeros(features.shape[1])
    for label in np.unique(y):
        own = y == label
        count = known[own].sum(axis=0)
        total += np.where(known[own], features[own], 0).sum(axis=0) / np.maximum(count, 1)
        classes += count > 0
    return np.asarray(np.where(classes > 0, total / np.maximum(classes, 1), otherwise))


def _features(part: Part, cases: QuantizedCases) -> Float64:
    chunks = case_chunks(cases, part.bank.n_features)
    return np.concatenate([np.asarray(transform(part.bank, cases.subset(chunk)), np.float64) for chunk in chunks])
