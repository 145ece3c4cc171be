"""DeepSHAP (Lundberg and Lee, 2017): DeepLIFT's mean over references drawn from TRAIN, by captum.

It inherits what is said of DeepLIFT: without activation modules it is (x − mean reference) × gradient.
"""

import warnings

import numpy as np
import torch

from anchormoe.benchmark.explainers.task import (
    CentredLogits,
    Explain,
    ExplainedModel,
    Explanation,
    SeriesBatch,
    as_values,
)

REFERENCES = 16
ROWS = 32
"""Cases at once; each is explained against every reference."""


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    from captum.attr import DeepLiftShap

    method = DeepLiftShap(CentredLogits(model.network()))
    drawn = np.random.default_rng(seed).permutation(len(train))[:REFERENCES]
    references = train.x[torch.from_numpy(drawn)]

    def explain(batch: SeriesBatch) -> Explanation:
        found = []
        for part in batch.parts(ROWS):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # captum announces its hooks at every call
                values = method.attribute(part.x, references, target=part.label, additional_forward_args=(part.mask,))
            found.append(as_values(values, part.mask))
        return Explanation(np.concatenate(found))

    return explain
