"""Integrated Gradients (Sundararajan et al., 2017): x · ∫ ∂u(a x)/∂x da from TRAIN's mean, by captum."""

from anchormoe.benchmark.explainers.task import (
    CentredLogits,
    Explain,
    ExplainedModel,
    Explanation,
    SeriesBatch,
    as_values,
)

PATH_STEPS = 50
ROWS = 512
"""Series at once."""


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    from captum.attr import IntegratedGradients

    method = IntegratedGradients(CentredLogits(model.network()))

    def explain(batch: SeriesBatch) -> Explanation:
        found, delta = method.attribute(
            batch.x, target=batch.label, additional_forward_args=(batch.mask,), n_steps=PATH_STEPS,
            internal_batch_size=max(ROWS, len(batch)), return_convergence_delta=True,
        )  # fmt: skip
        return Explanation(as_values(found, batch.mask), facts={"convergence_delta": float(delta.abs().mean())})

    return explain
