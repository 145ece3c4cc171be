"""Input × Gradient (Shrikumar et al., 2016): x · ∂u/∂x, by captum. 0 is TRAIN's mean of a channel."""

from anchormoe.benchmark.explainers.task import (
    CentredLogits,
    Explain,
    ExplainedModel,
    Explanation,
    SeriesBatch,
    as_values,
)


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    from captum.attr import InputXGradient

    method = InputXGradient(CentredLogits(model.network()))

    def explain(batch: SeriesBatch) -> Explanation:
        x = batch.x.clone().requires_grad_()
        found = method.attribute(x, target=batch.label, additional_forward_args=(batch.mask,))
        return Explanation(as_values(found, batch.mask))

    return explain
