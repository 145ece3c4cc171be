"""Refuses a bundle that would need more memory than any honest one, before it computes a window. Pure."""

from collections.abc import Iterable

from anchormoe.bundle.config import BundleConfig
from anchormoe.bundle.golden import WINDOWS
from anchormoe.errors import ModelError
from anchormoe.evidence import Source

MAX_PEAK_BYTES = 4 << 30


def require_memory(config: BundleConfig, sources: Iterable[Source]) -> None:
    """For as many windows as are computed at once. A source of a test may give no estimate. Raises ModelError."""
    windows = max(config.rows, WINDOWS)
    own = windows * (24 * len(config.channels) * config.length + 32 * config.length * len(config.classes))
    needed = own + max((_estimate(source, windows, config.length) for source in sources), default=0)
    if needed > MAX_PEAK_BYTES:
        raise ModelError(
            f"config.json: {windows} windows of {len(config.channels)} channels × {config.length} steps with "
            f"{len(config.classes)} classes would need about {needed / 2**30:.1f} GiB, "
            f"at most {MAX_PEAK_BYTES / 2**30:g} are allowed; lower `rows`, or train a smaller model"
        )


def _estimate(source: Source, windows: int, steps: int) -> int:
    estimate = getattr(source, "peak_bytes", None)
    return 0 if estimate is None else int(estimate(windows, steps))
