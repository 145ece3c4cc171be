"""Dead letters as text: a table by reason, a line per letter, one letter in full. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.dead_letters.stored import ReasonCount, StoredDeadLetter
from connectors.printable import printable
from connectors.timestamps import END_NS, NS_PER_MS, format_iso

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
    rows = [("reason", "count", "first", "last", "example")]
    for reason, each in sorted(counts.items(), key=lambda pair: -pair[1].count):
        rows.append((reason, str(each.count), time_text(each.first_ms), time_text(each.last_ms), each.example))
    return align_columns(rows)


def letters_text(letters: Sequence[StoredDeadLetter]) -> str:
    rows = [("position", "time", "key", "source", "detail")]
    for letter in letters:
        source = f"{letter.source}@{letter.dl_headers.get('offset', '?')}"
        detail = letter.dl_headers.get("detail", "")
        rows.append((str(letter.position), time_text(letter.time_ms), readable(letter.key), source, detail))
    return align_columns(rows) if letters else "no dead letters"


def letter_json(letter: StoredDeadLetter) -> dict[str, Any]:
    record = {"position": str(letter.position), "key": readable(letter.key), "value": readable(letter.value)}
    return record | dict(letter.dl_headers)


def align_columns(rows: Sequence[tuple[str, ...]]) -> str:
    rows = [tuple(map(printable, row)) for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def letter_lines(letter: StoredDeadLetter) -> list[str]:
    """One letter in full; of a long value only the beginning."""
    headers = letter.dl_headers
    field = f" (field {headers['field']})" if headers.get("field") else ""
    source = f"{letter.source}@{headers.get('offset', '?')} at {time_text(letter.time_ms)}"
    lines = [f"{letter.position}  {letter.reason}: {headers.get('detail', '')}{field}", f"source: {source}"]
    lines += [f"rejected by version {headers.get('version', '?')}, replayed {letter.times_replayed} times before"]
    lines += [f"key: {readable(letter.key)}"]
    lines += [f"header {name}: {readable(text)}" for name, text in letter.headers]
    value = letter.value or b""
    shown = readable(value[:_BYTES_SHOWN]) + (" …" if len(value) > _BYTES_SHOWN else "")
    about = f"value, {len(value)} bytes:"
    if letter.is_pointer:
        about = f"value, {headers.get('size', '?')} bytes, not stored here: it is in the log, at the source"
        shown = f"sha256 {headers.get('sha256', '?')}"
    return list(map(printable, [*lines, about, shown]))


def readable(value: bytes | None) -> str:
    """UTF-8 as it is, other bytes in hexadecimal; control characters are escaped, so none reaches a terminal."""
    if value is None:
        return "–"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"hex {value.hex(' ')}"
    return printable(text)


def time_text(epoch_ms: int) -> str:
    """A timestamp that no calendar has, which a producer may write, is shown as its number."""
    if epoch_ms <= 0:
        return "–"
    return format_iso(epoch_ms * NS_PER_MS) if epoch_ms < END_NS // NS_PER_MS else f"{epoch_ms} ms"
