"""Prints an explanation as lines or JSON, and writes its picture or page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from connectors.printable import printable

if TYPE_CHECKING:
    from anchormoe.explain.explanation import Explanation, Sum

_EXPERTS = 5


def show_explanation(found: "Explanation", out: Path | None, *, as_json: bool) -> None:
    """Writes the picture or page that was asked for, and prints the rest."""
    if out is not None:
        from anchormoe.explain.html import write_explanation

        out.parent.mkdir(parents=True, exist_ok=True)
        write_explanation(out, found, title=found.origin.words)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False, indent=2))
        return
    for line in text_lines(found):
        typer.echo(printable(line))
    if out is not None:
        typer.echo(f"written to {out}")


def text_lines(found: "Explanation") -> list[str]:
    """The sentence, the sum, why not the runner-up, the experts, what is missing."""
    from anchormoe.explain.words import class_name, headline, unused_words, waterfall, window_words

    lines = [f"{found.origin.words}: {window_words(found)}", found.sentence, headline(found), "how the score adds up:"]
    lines += _sum_lines(waterfall(found, found.score, 40), found.score, "score", found)
    lines.append(f"why not {class_name(found.rival)}:")
    lines += _sum_lines(waterfall(found, found.margin, 40), found.margin, "margin", None)
    lines.append("experts:")
    lines += [f"  {one.contribution:+10.4f}  {one.title}" for one in found.experts[:_EXPERTS]]
    if unused := unused_words(found):
        lines.append(f"not used: {', '.join(unused)}")
    missing = [f"{found.config.channels[at]} {share:.0%}" for at, share in list(found.missing.items())[:8]]
    word = "missing or not used" if unused else "missing"
    return [*lines, f"{word}: {', '.join(missing)}"] if missing else lines


def _sum_lines(rows: list[tuple[str, float]], one: "Sum", total: str, found: "Explanation | None") -> list[str]:
    """One line per summand; those of the score with what a person compares, and a similar TRAIN segment."""
    from anchormoe.explain.words import compare_with_normal, example_words, written_sum

    notes = [""] * len(rows)
    for place, span in enumerate(() if found is None else found.score.spans, start=1):
        assert found is not None
        notes[place] = f"   {compare_with_normal(found, span)}"
        notes[place] += "" if span.example is None else f"; {example_words(found, span.example)}"
    texts, whole = written_sum(one)
    width, digits = max(len(name) for name, _ in rows), max(10, *map(len, texts), len(whole))
    lines = [
        f"  {text:>{digits}}  {name:<{width}}{note}".rstrip()
        for text, (name, _), note in zip(texts, rows, notes, strict=True)
    ]
    return [*lines, f"  {whole:>{digits}}  = {total}"]
