import math

import torch

from anchormoe.paper.losses import LossWeights, objective, orthogonality, reliability_alignment, support_target
from anchormoe.paper.output import Output


def an_output() -> Output[torch.Tensor]:
    """One window, three patches (the last invalid), two chosen experts, two classes; class 1 is predicted."""
    return Output(
        logits=torch.tensor([[0.0, 1.0]]),
        contributions=torch.zeros(1, 3, 2),
        expert=torch.tensor([[[0, 1]] * 3]),
        expert_logits=torch.tensor([[[[9.0, 2.0], [9.0, -4.0]], [[9.0, 4.0], [9.0, 4.0]], [[9.0, 99.0]] * 2]]),
        weight=torch.tensor([[[0.5, 0.5], [0.25, 0.75], [0.5, 0.5]]]),
        reliability=torch.ones(1, 3, 2),
        score=torch.tensor([[0.5, 0.8, 0.1]]),
        admission=torch.zeros(1, 3),
        valid=torch.tensor([[True, True, False]]),
    )


def test_the_support_is_the_size_of_the_routing_only_logit_of_the_predicted_class() -> None:
    # |0.5·2 − 0.5·4| = 1 and |0.25·4 + 0.75·4| = 4; the invalid patch does not count
    torch.testing.assert_close(support_target(an_output()), torch.tensor([[0.25, 1.0, 0.0]]), atol=1e-5, rtol=0)


def test_reliability_alignment_is_the_mean_binary_cross_entropy_over_valid_patches() -> None:
    first = -(0.25 * math.log(0.5) + 0.75 * math.log(0.5))
    expected = (first - math.log(0.8)) / 2
    assert math.isclose(reliability_alignment(an_output()).item(), expected, abs_tol=1e-5)


def test_the_support_target_stops_the_gradient() -> None:
    opinions = an_output().expert_logits.requires_grad_()
    score = torch.tensor([[0.5, 0.8, 0.1]], requires_grad=True)
    loss = reliability_alignment(an_output()._replace(expert_logits=opinions, score=score)).sum()
    loss.backward()
    assert opinions.grad is None
    assert score.grad is not None
    assert score.grad[0, 2] == 0


def test_orthogonality_is_the_mean_squared_cosine_of_different_anchors() -> None:
    anchors = torch.tensor([[[1.0, 0.0], [0.0, 3.0], [2.0, 2.0]]])
    # cosines 0, √½, √½, each pair twice: (0 + ½ + ½) · 2 / 6
    assert math.isclose(orthogonality(anchors).item(), 1 / 3, abs_tol=1e-5)


def test_orthogonality_of_one_expert_or_of_nothing_valid_is_zero_with_finite_gradients() -> None:
    assert orthogonality(torch.ones(2, 1, 4)).tolist() == [0, 0]
    nothing = torch.zeros(1, 3, 4, requires_grad=True)
    orthogonality(nothing).sum().backward()
    assert nothing.grad is not None
    assert torch.isfinite(nothing.grad).all()


def test_the_objective_adds_the_terms_with_their_weights() -> None:
    output = an_output()._replace(anchors=torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]))
    y = torch.tensor([0])
    ce = math.log(1 + math.e)
    ra = reliability_alignment(output).item()
    assert math.isclose(objective(output, y, LossWeights(0, 0)).item(), ce, abs_tol=1e-5)
    assert math.isclose(objective(output, y, LossWeights(0.5, 2)).item(), ce + 0.5 + 2 * ra, abs_tol=1e-4)


def test_warm_up_is_linear_and_ends_at_the_full_weights() -> None:
    weights = LossWeights(0.4, 0.2)
    assert weights.warmed(0.5) == LossWeights(0.2, 0.1)
    assert weights.warmed(3.0) == weights
