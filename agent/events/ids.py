"""Names that are the same in every run over the same log: event ids and times. Pure."""

import hashlib

NOTHING = "-"


def event_id(namespace: str, asset: str, end_ns: int, *, digest: str | None, kind: str, channel: str | None) -> str:
    """Equal for equal content, whoever computes it: nothing of host, clock or batch goes in."""
    parts = (namespace, asset, str(end_ns), digest or NOTHING, kind, channel or NOTHING)
    # Lengths in front, so that no two different tuples read the same.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def six_digits(value: float) -> float:
    """Published numbers have six significant digits, so that the last bits of a CPU do not show."""
    return float(f"{value:.6g}")
