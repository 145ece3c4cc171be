"""Names that are the same in every run over the same log: event ids and times. Pure."""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache

NOTHING = "-"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def event_id(namespace: str, asset: str, end_ns: int, *, digest: str | None, kind: str, channel: str | None) -> str:
    """Equal for equal content, whoever computes it: nothing of host, clock or batch goes in."""
    parts = (namespace, asset, str(end_ns), digest or NOTHING, kind, channel or NOTHING)
    # Lengths in front, so that no two different tuples read the same.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def iso_time(time_ns: int) -> str:
    """RFC 3339 in UTC with the digits that are needed and no more."""
    seconds, nanos = divmod(time_ns, 1_000_000_000)
    fraction = f".{nanos:09d}".rstrip("0") if nanos else ""
    return f"{_stamp(seconds)}{fraction}Z"


@lru_cache(maxsize=65_536)
def _stamp(seconds: int) -> str:
    """The patches of windows that overlap begin and end at the same times."""
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def six_digits(value: float) -> float:
    """Published numbers have six significant digits, so that the last bits of a CPU do not show."""
    return float(f"{value:.6g}")
