"""Event ids that are the same in every run over the same log. Pure."""

import hashlib

_NONE = "-"


def event_id(namespace: str, asset: str, end_ns: int, *, digest: str | None, kind: str, channel: str | None) -> str:
    """Equal for equal content: host, clock and batch are not part of it."""
    parts = (namespace, asset, str(end_ns), digest or _NONE, kind, channel or _NONE)
    # Each part follows its length, so that different parts never give the same text.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
