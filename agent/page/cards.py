"""The model cards of the bundles, as far as they are readable."""

from collections.abc import Iterable
from pathlib import Path

from agent.settings import ResolvedGroup

_NAME = "MODEL_CARD.md"
_MAX_BYTES = 65_536


def read_cards(groups: Iterable[ResolvedGroup]) -> dict[str, str]:
    return {group.name: read_card(group.bundle) for group in groups}


def read_card(bundle: Path) -> str:
    """Empty where there is none."""
    try:
        with (bundle / _NAME).open("rb") as file:
            return file.read(_MAX_BYTES).decode(errors="replace")
    except OSError:
        return ""
