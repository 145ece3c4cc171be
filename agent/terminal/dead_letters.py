"""Dead letters as text: a table by reason, a line each, one in full. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.dead_letters.stored import ReasonCount, StoredDeadLetter
from connectors.timestamps import format_iso

_BYTES_SHOWN = 4_096


def counts_json(counts: Mapping[str, ReasonCount]) -> dict[str, Any]:
    return {
        reason: {
            "count": each.count,
            "first": time_text(each.first_ms),
            "last": time_text(each.last_ms),
            "fields": sorted(each.fields),
            "example": each.example,
        }
        for reason, each in sorted(counts.items())
    }


def counts_text(counts: Mapping[str, ReasonCount]) -> str:
    if not counts:
        return "no dead letters"
    rows = [("reason", "count", "first", "last", "for example")]
    for reason, each in sorted(counts.items(), key=lambda pair: -pair[1].count):
        rows.append((reason, str(each.count), time_text(each.first_ms), time_text(each.last_ms), each.example))
    return aligned(rows)


def each_text(letters: Sequence[StoredDeadLetter]) -> str:
    rows = [("place", "time", "key", "came from", "detail")]
    for letter in letters:
        origin = f"{letter.source}@{letter.ours.get('offset', '?')}"
        detail = letter.ours.get("detail", "")
        rows.append((str(letter.place), time_text(letter.time_ms), readable(letter.key), origin, detail))
    return aligned(rows) if letters else "no dead letters"


def each_json(letter: StoredDeadLetter) -> dict[str, Any]:
    facts = {"place": str(letter.place), "key": readable(letter.key), "value": readable(letter.value)}
    return facts | dict(letter.ours)


def aligned(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def described(letter: StoredDeadLetter) -> list[str]:
    ours = letter.ours
    field = f" (field {ours['field']})" if ours.get("field") else ""
    origin = f"{letter.source}@{ours.get('offset', '?')} at {time_text(letter.time_ms)}"
    lines = [f"{letter.place}  {letter.reason}: {ours.get('detail', '')}{field}", f"came from {origin}"]
    lines += [f"refused by version {ours.get('version', '?')}, sent again {letter.times_replayed} times"]
    lines += [f"key: {readable(letter.key)}"]
    lines += [f"header {name}: {readable(text)}" for name, text in letter.headers]
    value = letter.value or b""
    shown = readable(value[:_BYTES_SHOWN]) + (" …" if len(value) > _BYTES_SHOWN else "")
    return [*lines, f"value, {len(value)} bytes:", shown]


def readable(value: bytes | None) -> str:
    """Text as it is; other bytes in hexadecimal. Control characters never reach the terminal."""
    if value is None:
        return "–"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"hex {value.hex(' ')}"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def time_text(epoch_ms: int) -> str:
    return format_iso(epoch_ms * 1_000_000) if epoch_ms > 0 else "–"
