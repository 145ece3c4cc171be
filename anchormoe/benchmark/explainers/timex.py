"""TimeX (Queen et al., NeurIPS 2023): a mask generator and a surrogate that together behave like the model.

The generator gives each value a probability p of being kept. A mask is drawn from it (Gumbel, straight through), what
is masked is drawn from TRAIN's N(μ, σ) of that step and channel, and the surrogate, which starts as a copy of the
model, reads the result. Model behaviour consistency (equations 5 and 6): the cosines between embeddings of a batch's
cases, and the Jensen–Shannon divergences between their predictions, must be those of the model on whole series. The
mask pays for its distance to p = .5 (KL, as in GSAT) and for its jumps in time. The generator is a small convolutional
network instead of a Transformer; prototypes, and the choice of an epoch on a validation part, are left out.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anchormoe.benchmark.explainers.task import Explain, ExplainedModel, Explanation, SeriesBatch, as_values

EPOCHS = 50
BATCH = 64
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-3
PRIOR = 0.5
MASK_WEIGHT, JUMP_WEIGHT = 2.0, 2.0
WIDTH, KERNEL = 32, 9
TEMPERATURE = 1.0


class MaskGenerator(nn.Module):
    """(N, C, T) to the logits of the probabilities of being kept."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv1d(channels, WIDTH, KERNEL, padding=KERNEL // 2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2),
            nn.ReLU(),
            nn.Conv1d(WIDTH, channels, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


def prepare(model: ExplainedModel, train: SeriesBatch, seed: int) -> Explain:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        generator = _fit(model, train)

    def explain(batch: SeriesBatch) -> Explanation:
        with torch.no_grad():
            return Explanation(as_values(torch.sigmoid(generator(batch.x)), batch.mask))

    return explain


def _fit(model: ExplainedModel, train: SeriesBatch) -> MaskGenerator:
    reference, surrogate = model.network(), model.network().train()
    generator = MaskGenerator(train.x.shape[1])
    parameters = [*generator.parameters(), *surrogate.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    noise = _moments(train)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(train)).split(BATCH):
            x, mask = train.x[chosen], train.mask[chosen]
            with torch.no_grad():
                wanted = reference.embed(x, mask)  # type: ignore[operator]
            kept = generator(x)
            got = surrogate.embed(_masked(x, kept, noise) * mask, mask)  # type: ignore[operator]
            loss = behaviour_distance(wanted, got) + MASK_WEIGHT * _mask_cost(kept, mask)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 5.0)
            optimizer.step()
    return generator.eval()


def behaviour_distance(wanted: tuple[Tensor, Tensor], got: tuple[Tensor, Tensor]) -> Tensor:
    """Mean squared difference of all pairs' cosines, plus that of all pairs' Jensen–Shannon divergences."""
    cosines = [F.normalize(embedding, dim=1) @ F.normalize(embedding, dim=1).T for embedding, _ in (wanted, got)]
    divergences = [_pairwise_divergence(torch.softmax(logits, dim=1)) for _, logits in (wanted, got)]
    return F.mse_loss(cosines[1], cosines[0]) + F.mse_loss(divergences[1], divergences[0])


def _pairwise_divergence(p: Tensor) -> Tensor:
    """Jensen–Shannon (N, N) of probabilities (N, Y)."""
    one, other = p[:, None], p[None]
    middle = ((one + other) / 2).clamp_min(1e-12).log()
    entropies = (p * p.clamp_min(1e-12).log()).sum(dim=1)
    return (entropies[:, None] + entropies[None]) / 2 - ((one + other) / 2 * middle).sum(dim=2)


def _masked(x: Tensor, kept: Tensor, noise: tuple[Tensor, Tensor]) -> Tensor:
    """Kept values as they are, the others drawn; the draw passes its gradient to the probabilities."""
    pair = torch.stack((kept, torch.zeros_like(kept)), dim=-1)
    hard = F.gumbel_softmax(pair, tau=TEMPERATURE, hard=True)[..., 0]
    return hard * x + (1 - hard) * torch.normal(noise[0].expand_as(x), noise[1].expand_as(x))


def _mask_cost(kept: Tensor, mask: Tensor) -> Tensor:
    """KL of the probabilities to the prior, and their mean jump."""
    p = torch.sigmoid(kept).clamp(1e-6, 1 - 1e-6)
    divergence = p * (p / PRIOR).log() + (1 - p) * ((1 - p) / (1 - PRIOR)).log()
    jumps = (p[..., 1:] - p[..., :-1]).abs()
    return (divergence * mask).sum() / mask.sum() + JUMP_WEIGHT * (jumps * mask[..., 1:]).mean()


def _moments(train: SeriesBatch) -> tuple[Tensor, Tensor]:
    """Mean and deviation (1, C, T) over TRAIN's valid values of each channel and step."""
    count = train.mask.sum(dim=0, keepdim=True).clamp_min(1)
    mean = (train.x * train.mask).sum(dim=0, keepdim=True) / count
    variance = ((train.x - mean).square() * train.mask).sum(dim=0, keepdim=True) / count
    return mean, variance.sqrt()
