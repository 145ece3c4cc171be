"""What the data of an event must look like for the state machine; anything else is refused before it is used. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from connectors.errors import RecordError, shorten

LONGEST_NAME = 256
LONGEST_SENTENCE = 500
MAX_DEPTH = 32
_EVIDENCE_NUMBERS = ("supporting", "opposing")


def check_event_data(data: Mapping[str, Any]) -> None:
    """Raises RecordError for a field of another type than the conditions, views and webhooks read it with."""
    _check_depth(data)
    for name in ("state", "channel", "finding", "published"):
        _check_name(data.get(name), name)
    text = data.get("text")
    _require(text is None or is_name(text, LONGEST_SENTENCE), "text")
    probabilities = data.get("probabilities")
    if probabilities is not None:
        _require(isinstance(probabilities, dict) and all(map(_is_number, probabilities.values())), "probabilities")
    evidence = data.get("evidence")
    if evidence is not None:
        _check_evidence(evidence)


def is_name(value: object, longest: int = LONGEST_NAME) -> bool:
    """A text that fits into a key and onto a line: no control characters, none that change the direction of text."""
    return isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()


def _check_name(value: object, field: str) -> None:
    if value is not None and not is_name(value):
        raise RecordError("malformed", f"{field}: {shorten(value)} is not a name", field=field)


def _check_evidence(evidence: Any) -> None:
    _require(isinstance(evidence, dict), "evidence")
    for name in _EVIDENCE_NUMBERS:
        _require(_is_number(evidence.get(name, 0.0)), f"evidence.{name}")
    patches = evidence.get("patches", [])
    _require(isinstance(patches, list) and all(map(_is_patch, patches)), "evidence.patches")
    spans = evidence.get("spans", [])
    _require(isinstance(spans, list) and all(map(_is_span, spans)), "evidence.spans")


def _is_span(span: Any) -> bool:
    """Of version 2 of the contract: its channels are names."""
    if not isinstance(span, dict) or not _is_number(span.get("contribution")):
        return False
    channels = span.get("channels")
    if not isinstance(channels, list) or not all(isinstance(name, str) for name in channels):
        return False
    return is_name(span.get("start")) and is_name(span.get("end"))


def _is_patch(patch: Any) -> bool:
    """Of version 1 of the contract."""
    if not isinstance(patch, dict) or not _is_number(patch.get("contribution")):
        return False
    channels = patch.get("channels")
    if not isinstance(channels, list) or not all(map(_is_channel, channels)):
        return False
    return is_name(patch.get("start")) and is_name(patch.get("end"))


def _is_channel(channel: Any) -> bool:
    return isinstance(channel, dict) and is_name(channel.get("name"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _require(holds: bool, field: str) -> None:
    if not holds:
        raise RecordError("malformed", f"{field}: not of the published form", field=field)


def _check_depth(data: Mapping[str, Any]) -> None:
    """orjson reads deeper documents than it writes."""
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise RecordError("malformed", f"nested deeper than {MAX_DEPTH} levels")


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value
