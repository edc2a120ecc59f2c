"""Finds the program that a text gives, says which programs are one, and reads examples of a docstring."""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from textwrap import dedent

from ttsflow.tasks.extract import after_thinking

__all__ = ["examples", "identity", "preamble", "program_in"]

_LONGEST = 20_000  # characters; longer texts are loops, not programs
_STARTS, _CUTS = 4, 10  # places that are tried as the beginning and the end of a program without a fence
_FENCE = re.compile(r"^[ \t]*```[ \t]*[\w+-]*[ \t]*\n(.*?)(?:^[ \t]*```|\Z)", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^(?:def|class|import|from|async def|@\w)", re.MULTILINE)
_MARGIN = re.compile(r"^(?=[^\s#])", re.MULTILINE)
_NEXT = re.compile(r"\n(?=class |def |#|if __name__|print|```)")


def program_in(text: str, prompt: str, entry: str, *, chat: bool) -> str | None:
    """Return the whole program that ``text`` gives for the function ``entry`` of ``prompt``.

    In a chat: the last fenced block that defines the function with a body, else what stands in the text
    without a fence, else the text as the continuation of the prompt. Otherwise the continuation comes
    first; it ends before the next thing at the left margin. Imports and helpers that stand in the prompt
    before the function are put in front of a program that was written anew. What does not parse is no
    program.
    """
    rest = after_thinking(text) if chat else text
    if rest is None or not rest.strip() or len(rest) > _LONGEST:
        return None
    before = preamble(prompt, entry)
    blocks = [*reversed(_FENCE.findall(rest))]
    anew = (
        start + form(block)
        for start, form in ((before, str), (before, dedent), (prompt, str))
        for block in blocks
    )
    loose = (before + code for code in _unfenced(rest))
    goes_on = [prompt + _NEXT.split(rest, maxsplit=1)[0]]
    order = (anew, loose, goes_on) if chat else (goes_on, anew, loose)
    return next((code for code in itertools.chain(*order) if _defines(code, entry)), None)


def preamble(prompt: str, entry: str) -> str:
    """Return what stands before the function: imports and helpers."""
    found = re.search(rf"^(?:async )?def {re.escape(entry)}\b", prompt, re.MULTILINE)
    return prompt[: found.start()] if found else ""


def identity(code: str) -> str:
    """Return a key that programs share which differ in layout, comments and docstrings alone.

    Of definitions with one name at the top the last one counts; what is only printed or asserted there,
    or runs only as a script, does not.
    """
    try:
        lines = _definitions(code)
    except RecursionError:  # an expression of thousands of terms
        lines = [code]
    return blake2b("\n".join(lines).encode("utf-8", "replace"), digest_size=16).hexdigest()


def _definitions(code: str) -> list[str]:
    tree = _parsed(code)
    lines: dict[str, str] = {}
    for node in tree.body if tree else ():
        if not isinstance(node, ast.Expr | ast.Assert) and not _is_script(node):
            name = getattr(node, "name", "") or ast.dump(node)
            lines.pop(name, None)
            lines[name] = ast.dump(_Undocumented().visit(node))
    return list(lines.values())


def examples(prompt: str, entry: str) -> tuple[str, ...]:
    """Return the examples of the function's docstring as tests, each a text that asserts.

    Read by the rules of doctest. An example counts when it calls the function and its output is a plain
    value (nothing is None, but a comparison without output is meant to hold); those before it that are no
    expressions are run first.
    """
    import doctest  # noqa: PLC0415 - it loads the debugger

    tree = _parsed(prompt)
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            try:
                found = doctest.DocTestParser().get_examples(ast.get_docstring(node) or "")
            except ValueError:
                return ()
            return tuple(_asserted([(one.source, one.want) for one in found], entry))
    return ()


def _asserted(pairs: Sequence[tuple[str, str]], entry: str) -> Iterator[str]:
    before = ""
    for source, want in pairs:
        tree = _parsed(source)
        if tree is None:
            continue
        only = tree.body[0] if len(tree.body) == 1 else None
        calls = any(isinstance(node, ast.Name) and node.id == entry for node in ast.walk(tree))
        if not isinstance(only, ast.Expr):
            before += source
        elif calls and isinstance(only.value, ast.Compare) and not want.strip():
            yield f"{before}assert {ast.unparse(only)}\n"
        elif calls and (value := _value(want)) is not None:
            yield f"{before}assert ({ast.unparse(only)}) == ({value})\n"


def _value(want: str) -> str | None:
    """Return a plain value that was printed as the text of one; None when it is none."""
    if not want.strip():
        return "None"
    try:
        return repr(ast.literal_eval(want.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _unfenced(text: str) -> Iterator[str]:
    """Yield what may be a program between other text."""
    for start in itertools.islice(_START.finditer(text), _STARTS):
        rest = text[start.start() :]
        cuts = [match.start() for match in _MARGIN.finditer(rest) if match.start()]
        ends = [len(rest), *cuts[: -_CUTS - 1 : -1]]
        if (end := next((end for end in ends if _parsed(rest[:end]) is not None), None)) is not None:
            yield rest[:end]


def _defines(code: str, entry: str) -> bool:
    """Whether a program parses and gives the function a body."""
    tree = _parsed(code)
    bodies = [
        node.body
        for node in (tree.body if tree else ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == entry
    ]
    return bool(bodies) and not all(_is_text(node) for node in bodies[-1])


def _is_text(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
        return False
    return isinstance(node.value.value, str)


def _is_script(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


class _Undocumented(ast.NodeTransformer):
    """Drops docstrings, and other texts that stand alone as a statement."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if _is_text(node) else node


def _parsed(code: str) -> ast.Module | None:
    """Return the tree of a text; None when it is no program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(code)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None
