"""Random: what every other explainer must beat."""

import numpy as np

from anchormoe.benchmark.explainers.task import Explain, ExplainedModel, Explanation, SeriesBatch


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    draw = np.random.default_rng(seed)

    def explain(batch: SeriesBatch) -> Explanation:
        return Explanation(draw.random(tuple(batch.x.shape)) * batch.mask.numpy())

    return explain
