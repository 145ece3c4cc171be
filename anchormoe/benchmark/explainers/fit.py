"""FIT (Tonekaboni et al., NeurIPS 2020): how much of a step's shift of the prediction one channel explains.

Equation 3 of the paper, with p(y | x_≤t) the model's answer to the series up to t:
    I(t, c) = KL(p(y | x_≤t) ‖ p(y | x_<t)) − E KL(p(y | x_≤t) ‖ p(y | x_<t, x_t,c, other channels drawn)),
squashed to 2 / (1 + exp(−5 I)) − 1 as the authors do. Other channels of step t are drawn from a Gaussian given the
past (a recurrent network gives its mean and covariance) and given x_t,c (conditioned in closed form). What comes after
t is marked missing. The authors' generator has a latent variable besides and ten draws; here there are three.
"""

import numpy as np
import torch
from torch import Tensor, nn

from anchormoe.benchmark.explainers.task import Explain, ExplainedModel, Explanation, SeriesBatch, torch_generator
from anchormoe.cases import Float64

HIDDEN = 100
EPOCHS = 15
BATCH = 32
LEARNING_RATE = 1e-3
DRAWS = 3
SHARPNESS = 5.0
MOST_STEPS = 300
"""Of a longer series every second, third, … step is explained, and its neighbours get its values."""
LEAST_VARIANCE = 1e-2


class NextStep(nn.Module):
    """A Gaussian of the next step given the past: means (N, T, C) and Cholesky factors (N, T, C, C)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.past = nn.GRU(channels, HIDDEN, batch_first=True)
        self.mean = nn.Linear(HIDDEN, channels)
        self.factor = nn.Linear(HIDDEN, channels * channels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`x` (N, C, T); step t sees the steps before it alone."""
        before = nn.functional.pad(x.transpose(1, 2), (0, 0, 1, 0))[:, :-1]  # (N, T, C)
        hidden, _ = self.past(before)
        lower = torch.tril(self.factor(hidden).unflatten(2, (self.channels, self.channels)), -1)
        size = nn.functional.softplus(self.factor(hidden).unflatten(2, (self.channels, -1)).diagonal(dim1=2, dim2=3))
        return self.mean(hidden), lower + torch.diag_embed(size + LEAST_VARIANCE)


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    generator = _fit_generator(train, seed)
    draw = torch_generator(seed)

    def explain(batch: SeriesBatch) -> Explanation:
        with torch.no_grad():
            mean, factor = generator(batch.x)
            return Explanation(_explain(model, batch, mean, factor @ factor.transpose(2, 3), draw))

    return explain


def conditional(mean: Tensor, covariance: Tensor, channel: int, value: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (N, C) and covariance (N, C, C) of a Gaussian, given one channel's value (N,)."""
    gain = covariance[:, :, channel] / covariance[:, channel, channel, None]  # (N, C)
    moved = mean + gain * (value - mean[:, channel])[:, None]
    return moved, covariance - gain[:, :, None] * covariance[:, None, channel, :]


def _fit_generator(train: SeriesBatch, seed: int) -> NextStep:
    """By the likelihood of TRAIN's steps."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = NextStep(train.x.shape[1])
        optimizer = torch.optim.Adam(net.parameters(), lr=LEARNING_RATE)
        valid = train.mask.any(dim=1)  # (N, T)
        for _ in range(EPOCHS):
            for chosen in torch.randperm(len(train)).split(BATCH):
                mean, factor = net(train.x[chosen])
                gap = train.x[chosen].transpose(1, 2) - mean
                whitened = torch.linalg.solve_triangular(factor, gap[..., None], upper=False)[..., 0]
                surprise = whitened.square().sum(2) / 2 + factor.diagonal(dim1=2, dim2=3).log().sum(2)
                loss = (surprise * valid[chosen]).sum() / valid[chosen].sum()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 5.0)
                optimizer.step()
    return net.eval()


def _explain(
    model: ExplainedModel, batch: SeriesBatch, mean: Tensor, covariance: Tensor, draw: torch.Generator
) -> Float64:
    """(N, C, T)"""
    channels, steps = batch.x.shape[1:]
    stride = -(-steps // MOST_STEPS)
    values = torch.zeros_like(batch.x, dtype=torch.float64)
    for t in range(0, steps, stride):
        seen, before = (_log_probabilities(model, *_until(batch, batch.x, end)) for end in (t + 1, t))
        shift = _divergence(seen, before)  # (N,)
        for channel in range(channels):
            drawn = [_with_draw(batch, t, channel, mean, covariance, draw) for _ in range(DRAWS)]
            unexplained = [_divergence(seen, _log_probabilities(model, *_until(batch, x, t + 1))) for x in drawn]
            score = shift - torch.stack(unexplained).mean(dim=0)
            values[:, channel, t : t + stride] = (2 / (1 + torch.exp(-SHARPNESS * score)) - 1)[:, None]
    return np.asarray((values * batch.mask).numpy())


def _with_draw(
    batch: SeriesBatch, t: int, channel: int, mean: Tensor, covariance: Tensor, draw: torch.Generator
) -> Tensor:
    """The series with the other channels of step t drawn given the past and `channel`."""
    centre, spread = conditional(mean[:, t], covariance[:, t], channel, batch.x[:, channel, t])
    root = torch.linalg.cholesky(spread + 1e-4 * torch.eye(spread.shape[1]))
    noise = torch.randn(centre.shape, generator=draw)
    x = batch.x.clone()
    x[:, :, t] = centre + (root @ noise[..., None])[..., 0]
    x[:, channel, t] = batch.x[:, channel, t]
    return x


def _until(batch: SeriesBatch, x: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """The first `end` steps; later ones are missing."""
    mask = batch.mask.clone()
    mask[:, :, end:] = False
    return x * mask, mask


def _log_probabilities(model: ExplainedModel, x: Tensor, mask: Tensor) -> Tensor:
    return torch.log_softmax(model.logits(x, mask).double(), dim=1)


def _divergence(one: Tensor, other: Tensor) -> Tensor:
    """KL (N,) of log probabilities (N, Y)."""
    return (one.exp() * (one - other)).sum(dim=1)
