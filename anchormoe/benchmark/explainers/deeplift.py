"""DeepLIFT (Shrikumar et al., 2017), by captum, with the two figures that say whether it is DeepLIFT at all.

captum replaces the gradients of activation *modules* (ReLU, Sigmoid, Tanh, …) only. In a network that has none, such as
the paper's, what it computes is Input × Gradient: the difference to that and the convergence delta go with the answer.
"""

import warnings

import torch
from torch import Tensor

from anchormoe.benchmark.explainers.task import (
    CentredLogits,
    Explain,
    ExplainedModel,
    Explanation,
    SeriesBatch,
    as_values,
)


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    from captum.attr import DeepLift, InputXGradient

    net = CentredLogits(model.network())
    method, plain = DeepLift(net), InputXGradient(net)

    def explain(batch: SeriesBatch) -> Explanation:
        x = batch.x.clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # captum announces its hooks at every call
            found = method.attribute(x, torch.zeros_like(x), target=batch.label, additional_forward_args=(batch.mask,))
        beside = plain.attribute(x, target=batch.label, additional_forward_args=(batch.mask,))
        return Explanation(as_values(found, batch.mask), facts=_soundness(net, batch, found, beside))

    return explain


def _soundness(net: CentredLogits, batch: SeriesBatch, found: Tensor, beside: Tensor) -> dict[str, float]:
    """`convergence_delta`: |Σ attributions − (u(x) − u(0))|; `of` is |u(x) − u(0)|; both are means over cases."""
    rows = torch.arange(len(batch))
    with torch.no_grad():
        change = net(batch.x, batch.mask)[rows, batch.label] - net(0 * batch.x, batch.mask)[rows, batch.label]
    delta = found.detach().flatten(1).sum(dim=1) - change
    return {
        "convergence_delta": float(delta.abs().mean()),
        "of": float(change.abs().mean()),
        "difference_to_input_gradient": float((found - beside).detach().abs().max()),
    }
