"""Vanilla gradient (Simonyan et al., 2014): |∂u/∂x|, by captum."""

from anchormoe.benchmark.explainers.task import (
    CentredLogits,
    Explain,
    ExplainedModel,
    Explanation,
    SeriesBatch,
    as_values,
)


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    from captum.attr import Saliency

    method = Saliency(CentredLogits(model.network()))

    def explain(batch: SeriesBatch) -> Explanation:
        x = batch.x.clone().requires_grad_()
        found = method.attribute(x, target=batch.label, additional_forward_args=(batch.mask,))
        return Explanation(as_values(found, batch.mask))

    return explain
