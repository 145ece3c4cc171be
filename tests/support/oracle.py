"""The paper's equations written down densely and plainly: the oracle for tests and the yardstick for the bench."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from anchormoe.paper.architecture import EPSILON, ModelConfig
from anchormoe.paper.net import PaperNet
from anchormoe.paper.output import Output


def forward(net: PaperNet, x: Tensor, mask: Tensor, valid: Tensor | None = None) -> Output[Tensor]:
    """What `net` (without dropout) should give, every expert computed for every patch.

    The bench passes `valid` (B, P): finding it here goes step by step in Python, which would be no fair yardstick.
    """
    config = net.config
    weights: dict[str, Tensor] = dict(net.named_parameters())
    valid = patch_validity(mask, config) if valid is None else valid
    unit = units(weights, config, x, valid)
    query = functional.linear(unit, weights["dpar.query.weight"], weights["dpar.query.bias"])
    routing = torch.softmax(functional.linear(query, weights["dpar.router.weight"], weights["dpar.router.bias"]), -1)
    return compose(weights, config, unit, routing, valid)


def patch_validity(mask: Tensor, config: ModelConfig) -> Tensor:
    """m (B, P): case by case, patch by patch."""
    L, s = config.patch_length, config.patch_stride
    P = patch_count(mask.shape[2], config)
    rows = []
    for steps in mask.any(dim=1).tolist():
        end = max((t + 1 for t, ok in enumerate(steps) if ok), default=0)
        needed = min(P, patch_count(end, config)) if end else 0
        rows.append([p < needed and any(steps[p * s : p * s + L]) for p in range(P)])
    return torch.tensor(rows)


def patch_count(steps: int, config: ModelConfig) -> int:
    return 1 + max(0, math.ceil((steps - config.patch_length) / config.patch_stride))


def units(weights: dict[str, Tensor], config: ModelConfig, x: Tensor, valid: Tensor) -> Tensor:
    """e (B, P, D), MVRE."""
    L, s, D = config.patch_length, config.patch_stride, config.width
    padded = functional.pad(x, (0, (valid.shape[1] - 1) * s + L - x.shape[2]))
    kernel = weights["mvre.embedding.weight"].view(D, config.channels, L)
    h = functional.conv1d(padded, kernel, weights["mvre.embedding.bias"], stride=s).transpose(1, 2)
    h = functional.layer_norm(h, (D,), weights["mvre.embedding_norm.weight"], weights["mvre.embedding_norm.bias"])
    h = h + positions(valid.shape[1], D)
    if not config.use_mvre:
        return h
    refined = torch.relu(functional.linear(h, weights["mvre.temporal.weight"], weights["mvre.temporal.bias"]))
    temporal = h + torch.sigmoid(weights["mvre.gate_temporal"]) * refined
    spectral = functional.linear(band_vector(padded, config), weights["mvre.spectral.weight"])
    m = valid.float().unsqueeze(-1)
    centroid = (m * h).sum(1, keepdim=True) / m.sum(1, keepdim=True).clamp_min(1)
    r = (h * centroid).sum(-1, keepdim=True) / math.sqrt(D)
    context = functional.linear(r, weights["mvre.context.weight"])
    fused = temporal + torch.sigmoid(weights["mvre.gate_spectral"]) * spectral
    fused = fused + torch.sigmoid(weights["mvre.gate_context"]) * context
    return functional.layer_norm(fused, (D,), weights["mvre.norm.weight"], weights["mvre.norm.bias"])


def positions(P: int, D: int) -> Tensor:
    code = torch.zeros(P, D)
    angle = torch.arange(P).unsqueeze(1) / 10000 ** (torch.arange(0, D, 2) / D)
    code[:, 0::2], code[:, 1::2] = torch.sin(angle), torch.cos(angle)
    return code


def band_vector(padded: Tensor, config: ModelConfig) -> Tensor:
    """v (B, P, C·bands) with a real Fourier transform."""
    patches = padded.unfold(2, config.patch_length, config.patch_stride).transpose(1, 2)  # (B, P, C, L)
    power = torch.fft.rfft(patches).abs() ** 2
    bands = min(config.bands, power.shape[-1])
    edges = [math.ceil(b * power.shape[-1] / bands) for b in range(bands + 1)]
    energies = [power[..., edges[b] : edges[b + 1]].sum(-1) for b in range(bands)]
    return torch.log1p(torch.stack(energies, dim=-1)).flatten(2)


def compose(
    weights: dict[str, Tensor], config: ModelConfig, unit: Tensor, routing: Tensor, valid: Tensor
) -> Output[Tensor]:
    """DPAR's anchors and RGC, all M experts, then the sparse mask."""
    M = config.experts
    m = valid.float()
    z = [expert(weights, unit, r) for r in range(M)]
    o = torch.stack([functional.linear(z[r], weights["rgc.class_head"]) for r in range(M)], dim=2)  # (B, P, M, Y)
    heads, offsets = weights["rgc.reliability_head"], weights["rgc.reliability_bias"]
    kappa = torch.stack([torch.sigmoid(z[r] @ heads[r] + offsets[r]) for r in range(M)], dim=2)  # (B, P, M)
    top = routing.topk(config.top_k, dim=-1).indices
    chosen = torch.zeros_like(routing).scatter(-1, top, 1.0)
    w = m.unsqueeze(-1) * chosen * routing / (chosen * routing).sum(-1, keepdim=True)
    kappa = kappa * m.unsqueeze(-1) if config.use_rgc else m.unsqueeze(-1).expand_as(kappa)
    score = (w * kappa).sum(-1) if config.use_rgc else m
    admission = score / (score.sum(1, keepdim=True) + EPSILON) if config.use_rgc else m / m.sum(1, True).clamp_min(1)
    patch_logit = (w.unsqueeze(-1) * kappa.unsqueeze(-1) * o).sum(2)  # ℓ (B, P, Y)
    contributions = admission.unsqueeze(-1) * patch_logit
    mass = m.unsqueeze(-1) * routing
    anchors = torch.einsum("bpm,bpd->bmd", mass, unit) / (mass.sum(1).unsqueeze(-1) + EPSILON)
    return Output(
        logits=contributions.sum(1),
        contributions=contributions,
        expert=top,
        expert_logits=o.gather(2, top.unsqueeze(-1).expand(*top.shape, config.classes)) * m[..., None, None],
        weight=w.gather(2, top),
        reliability=kappa.gather(2, top),
        score=score,
        admission=admission,
        valid=valid,
        anchors=anchors if config.use_dpar else None,
    )


def expert(weights: dict[str, Tensor], unit: Tensor, r: int) -> Tensor:
    """z (B, P, D) of expert r."""
    hidden = torch.relu(unit @ weights["rgc.expert_in"][r] + weights["rgc.expert_in_bias"][r])
    return hidden @ weights["rgc.expert_out"][r]
