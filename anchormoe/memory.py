"""How much memory a training will need at its peak, by a rough rule. Pure."""

from anchormoe.cases import Cases
from anchormoe.recipe_settings import RecipeSettings

_GIGABYTE = 1 << 30
_LIBRARIES = 0.9 * _GIGABYTE
_FEATURES = {"fast": 4_000, "balanced": 12_000, "accurate": 24_000}
_DUAL_CASES = 4_000
_MEMBERS = {"fast": 3, "balanced": 3, "accurate": 6}
_TOKENS, _WIDTH, _BATCH, _LAYERS = 64, 48, 64, 24


def needed_bytes(cases: Cases, settings: RecipeSettings) -> int:
    """Libraries, the data (raw, scaled, and one working copy), and what the largest fit holds at once."""
    data = 3 * (cases.x.nbytes + cases.mask.nbytes)
    fits = {
        "kernel": _kernel_bytes(cases, settings.profile),
        "experts": _MEMBERS[settings.profile] * _BATCH * _TOKENS * _WIDTH * 4 * _LAYERS + cases.x.nbytes,
        "paper": _BATCH * cases.steps * max(cases.channels, 128) * 4 * _LAYERS + cases.x.nbytes,
    }
    chosen = ("kernel", "experts") if settings.recipe == "joint" else (settings.recipe,)
    return int(_LIBRARIES + data + max(fits[name] for name in chosen))


def _kernel_bytes(cases: Cases, profile: str) -> int:
    """Features of at most 4,000 cases at once, and a few Gram matrices of as many."""
    rows = min(len(cases), _DUAL_CASES)
    return rows * _FEATURES[profile] * 8 + 4 * rows * rows * 8


def readable(size: int) -> str:
    return f"{size / _GIGABYTE:.1f} GB"
