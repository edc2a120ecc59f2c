"""``ttsflow show``: a run's problems, and one of them as a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Drawn

from ttsflow.analysis.runs import check_one
from ttsflow.analysis.tree import Node, Tree, ending, grow, read_trace, walk
from ttsflow.errors import DataError, suggest
from ttsflow.listing import wide_console
from ttsflow.runs.lines import read_lines

__all__ = ["show_problem", "show_problems"]


_RIGHT = {"True": "yes", "False": "no"}
_DEEPEST = 200  # generations drawn
_CELL = 40  # characters of an answer in the list; one that is a program has hundreds
_INDENT, _ROOM = 4, 16  # columns: what each generation takes, what a narrow terminal keeps for the text


def show_problems(folder: Path) -> None:
    """Print a row per problem of a run. Raises ``DataError`` when the folder holds none."""
    path = folder / "results.jsonl"
    if not path.is_file():
        check_one(folder)
        raise DataError(f"{folder} holds no results.jsonl; name the folder of a run.")
    results, broken = read_lines(path)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("problem", "outcome", "answer", "gold", "right", "decoded", "stopped"):
        table.add_column(name, overflow="fold")
    for result in results:
        right = _RIGHT.get(str(result.get("correct")), "-")
        usage = result.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        said = [_brief(result.get(key), _CELL) for key in ("answer", "gold")]
        cells = (result.get("id"), result.get("outcome"), *said, right)
        rest = (usage.get("decoded"), result.get("stopped"))
        table.add_row(*(Text("" if cell is None else _plain(cell)) for cell in (*cells, *rest)))
    console = wide_console()
    console.print(table)
    for number in broken:
        console.print(f"line {number} of results.jsonl is broken and was skipped", markup=False)


def show_problem(folder: Path, problem: str, *, width: int = 100) -> None:
    """Print one problem as a tree; ``width`` characters of every text. Raises ``DataError``."""
    events, broken = read_trace(folder)
    if problem not in events:
        raise DataError(_plain(f"the run has no problem {problem!r}. {suggest(problem, events)}"))
    tree = grow(problem, events[problem])
    drawn = Drawn(Text(_plain(_headline(tree)), style="bold"))
    console = wide_console()
    deepest = max(1, min(_DEEPEST, (console.width - _ROOM) // _INDENT))
    waiting = [(drawn, node, 1) for node in reversed(tree.roots)]
    while waiting:
        branch, node, depth = waiting.pop()
        below = branch.add(_line(node, width))
        if depth < deepest:
            waiting += [(below, child, depth + 1) for child in reversed(node.children)]
        elif node.children:
            hidden = sum(1 for _ in walk(node.children))
            below.add(Text(f"\u2026 {hidden} nodes further down are not drawn"))
    console.print(drawn)
    for line in tree.decisions:
        console.print(_plain(line), markup=False)
    for number in broken:
        console.print(f"line {number} of trace.jsonl is broken and was skipped", markup=False)


def _plain(value: Any) -> str:
    """Return a text without what a terminal would obey: escape codes, and other control characters."""
    try:
        text = str(value)
    except RecursionError:
        return "(nested too deeply to be shown)"
    return "".join(char if char.isprintable() else " " for char in text)


def _brief(value: Any, width: int) -> str | None:
    """Return a text on one line, of at most ``width`` characters; None stays None."""
    if value is None:
        return None
    text = _plain(" ".join(str(value).split()))
    return text if len(text) <= width else text[: width - 1] + "\u2026"


def _count(tokens: int) -> str:
    return f"{tokens} token{'s' if tokens != 1 else ''}"


def _headline(tree: Tree) -> str:
    result: Mapping[str, Any] = tree.result
    told = [
        f"{key} {_brief(result[key], _CELL) if key == 'answer' else _plain(result[key])}"
        for key in ("outcome", "answer", "correct", "stopped")
        if result.get(key) is not None
    ]
    tokens = sum(node.tokens for node in tree.nodes.values())
    return f"{tree.problem}: " + ", ".join([*told, f"{len(tree.nodes)} nodes", _count(tokens)])


def _line(node: Node, width: int) -> Text:
    # Styled texts and no markup: what a trace says may look like markup.
    marks: Sequence[tuple[str, str]] = [
        (".".join(map(str, node.path)), "dim"),
        (_count(node.tokens), ""),
        *([(f"engine {_plain(node.engine)}", "cyan")] if node.engine else []),
        (_plain(ending(node)), ""),
        *([(f"{_plain(node.aside)}, thrown away", "magenta")] if node.aside else []),
        *([(_scores(node), "")] if node.scores else []),
        *([(f"answer {_brief(node.answer, width)}", "bold")] if node.answer is not None else []),
        *([("chosen", "green")] if node.chosen else []),
        *([(f"pruned {_plain(node.pruned)}", "red")] if node.pruned else []),
        *([(_plain(node.reason), "yellow")] if node.reason else []),
    ]
    line = Text("  ").join(Text(mark, style=style) for mark, style in marks)
    text = _brief(node.text, width)
    return line.append(f"\n{text}") if text else line


def _scores(node: Node) -> str:
    known = ["-" if score is None else f"{score:.3g}" for score in node.scores]
    return f"{'score' if len(known) == 1 else 'scores'} {' '.join(known)}"
