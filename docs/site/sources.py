"""Signatures, fields and docstrings as their authors wrote them, and the hooks by which Sphinx asks for them.

Left alone, autodoc prints what annotations evaluate to, and numpy's `ArrayLike` alone evaluates to ten lines.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from itertools import pairwise
from typing import Annotated, Any, get_args, get_origin

import numpy as np


@dataclass(frozen=True, slots=True)
class Field:
    """Of a dataclass, a named tuple or a pydantic model."""

    name: str
    annotation: str
    default: str
    meaning: str


def read_fields(kind: type) -> list[Field]:
    """In order, inherited ones first. What is not made of fields has none."""
    models = getattr(kind, "model_fields", {})
    described = {name: " ".join(escape([one.description or ""])) for name, one in models.items()}
    if not (described or is_dataclass(kind) or hasattr(kind, "_fields")):
        return []
    own = [field for base in reversed(kind.__mro__) if _has_fields(base) for field in _own_fields(base)]
    return [replace(one, meaning=described.get(one.name) or one.meaning) for one in own]


def _has_fields(kind: type) -> bool:
    return bool(getattr(kind, "model_fields", ())) or is_dataclass(kind) or "_fields" in vars(kind)


def _own_fields(kind: type) -> list[Field]:
    """A string after a field is its docstring."""
    node = _node(kind)
    assert isinstance(node, ast.ClassDef)
    return [
        Field(
            name=one.target.id,
            annotation=_annotation(one.annotation, kind),
            default=ast.unparse(one.value) if isinstance(one.value, ast.Constant) else "",
            meaning=_docstring(after),
        )
        for one, after in pairwise([*node.body, ast.Pass()])
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    ]


def _docstring(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(escape(inspect.cleandoc(node.value.value).splitlines()))
    return ""


def read_signature(function: Callable[..., Any]) -> tuple[str, str]:
    """Parameters in parentheses, without `self`, and what is given back."""
    node = _node(function)
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    parameters = node.args
    for one in (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs):
        if one.annotation:
            one.annotation = ast.parse(_annotation(one.annotation, function), mode="eval").body
    parameters.args = [one for one in parameters.args if one.arg not in ("self", "cls")]
    parameters.defaults = [_default(one, function) for one in parameters.defaults]
    parameters.kw_defaults = [one and _default(one, function) for one in parameters.kw_defaults]
    return f"({ast.unparse(parameters)})", _annotation(node.returns, function) if node.returns else ""


def _node(thing: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _annotation(node: ast.expr, owner: Any) -> str:
    """As written, but without quotes and aliases of ours."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    known = vars(sys.modules[owner.__module__])
    return re.sub(r"\b[A-Z]\w+\b", lambda match: _alias(known.get(match[0])) or match[0], text)


def _default(node: ast.expr, owner: Any) -> ast.expr:
    """A constant by its value; others keep their name."""
    value = vars(sys.modules[owner.__module__]).get(node.id) if isinstance(node, ast.Name) else None
    return ast.Constant(value) if isinstance(value, str | int | float) else node


def _alias(value: Any) -> str:
    """The public name behind an alias of ours: of an array, or of an annotated type."""
    if get_origin(value) is Annotated:
        return str(get_args(value)[0].__name__)
    if get_origin(value) is not np.ndarray:
        return ""
    [element] = get_args(get_args(value)[1])
    return f"NDArray[{element.__name__}]" if isinstance(element, type) else ""


def escape(lines: list[str]) -> list[str]:
    """Docstrings are plain text with `code`: stars, underscores and bars mean nothing. Indented lines are code."""
    written: list[str] = []
    for line in lines:
        if line.startswith("    "):
            if written and not written[-1].strip() and not written[-2:-1][0].startswith("    "):
                written += ["::", ""]
            written.append(line)
        else:
            pieces = re.split(r"(`[^`]*`)", line)
            written.append("".join(one if one[:1] == "`" else re.sub(r"([*_|])", r"\\\1", one) for one in pieces))
    return written


def on_signature(_app: Any, what: str, _name: str, thing: Any, *_rest: Any) -> tuple[str, str] | None:
    """For autodoc-process-signature. A class made of fields has no signature: the fields follow."""
    if what == "class":
        return ("", "") if read_fields(thing) else (read_signature(thing.__init__)[0], "")
    return read_signature(thing) if what in ("function", "method") else None


def on_docstring(_app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """For autodoc-process-docstring, which wants the lines changed in place."""
    lines[:] = escape(lines)


def on_missing_reference(app: Any, env: Any, node: Any, content: Any) -> Any:
    """For missing-reference: a class of another public module, which the source names without its module."""
    if node.get("refdomain") != "py":
        return None
    name = node["reftarget"].rpartition(".")[2]
    python = env.domains.python_domain
    found = [path for path in python.objects if path.rpartition(".")[2] == name and name[:1].isupper()]
    if len(found) != 1:
        return None
    return python.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, content)
