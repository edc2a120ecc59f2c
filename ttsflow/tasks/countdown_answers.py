"""What a text of a number game answers, and whether that is right."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction

from ttsflow.tasks.expression import JOINING, Expression, Operation, chain_of, is_sign, plain_line
from ttsflow.tasks.extract import after_thinking, last_box, statement
from ttsflow.types import Problem

__all__ = ["LEFT", "alone_in", "final_in", "joined", "solves", "stated_in"]

#: What a step says is left, such as ``(left: 3, 8/3)``; the group holds the numbers.
LEFT = re.compile(
    r"[(\[]?\s*(?:numbers?\s+)?\b(?:left|remaining)\s*:([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)", re.IGNORECASE
)

_LINE = 4000  # characters; a longer line is no answer
_CUT = 380  # characters; a statement is cut off a little later

#: Words that change nothing where they stand next to an expression; all others might.
_WORD = (
    r"(?:so|thus|then|hence|therefore|finally|indeed|also|now|here|here's|this|that|that's|the|our|my|we"
    r"|final|answers?|solution|expression|equation|formula|result|value|is|are|was|be|it|it's|its|has|have"
    r"|get|gets|got|can|could|find|found|obtain|write|written|use|using|uses|which|as|such|possible"
    r"|correct|right|valid|works?|done|required|desired|needed|wanted|check|verify|verification|try|with"
    r"|because|since|where|each|every|all|numbers?|exactly|once|given(?:\s+by)?|gives|equals|makes|reaches|target"
    r"|antwort|lautet|ist|respuesta|es|est|risposta|resposta)(?![^\W_]|')"
)
_HEAD = re.compile(
    r"^\s*(?:\d{1,2}[.)](?=\s)|[*\u2022](?=\s)|\W*(?:step|line)\s+\d{1,2}\s*[:.)])", re.IGNORECASE
)
_PARTS = re.compile(r"([^\d.+\-*/()=]*)([\d.+\-*/()=\s]+)([^\d+\-*/()=]*)")
_FRONT = re.compile(rf"(?:{_WORD}[\s,:]+)*", re.IGNORECASE)
_BACK = re.compile(rf"(?:[\s,;]*\b(?!then\b){_WORD})*[\s.]*", re.IGNORECASE)
_PART_OF = re.compile(rf"\b(?:of|{JOINING})(?:\s+{_WORD}){{0,3}}[\s,:]*$", re.IGNORECASE)
_BEFORE = re.compile(
    rf"(?:^|[^\d]\.|\b(?:{_WORD}[\s,:]*|(?:answer|solution|expression|result)\s*=))\s*$", re.IGNORECASE
)
_NEXT = rf"(?:\w+,? ){{0,2}}(?:{JOINING}|add|subtract|multiply|divide)\b"
_AFTER = re.compile(rf"[\s.]*$|\s*\.\s+(?!{_NEXT})[(]?[^\W\d_]|[\s,;(]*(?!then\b){_WORD}", re.IGNORECASE)
_CLAIMED_BEFORE = re.compile(r"([\d.+\-*/()\s]+(?:=[\d.+\-*/()\s]+)*)=\s*$")
_CLAIMED_AFTER = re.compile(r"\s*=\s*(-?\d+(?:\.\d+)?(?:\s*/\s*\d+)?)")
# Marks that would end a statement, although they, or what follows them, may belong to its expression.
_STOP = re.compile(
    rf"[!?]|\.(?=[^\S\n*]*[ \t*](?:[\s*_$`\"\u201d]|\\[\])])*(?<!\n)"
    rf"(?:[^\s\w(\"\u201d*_$`\\]|\\(?![\])])|\d|{_NEXT}))",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"[^\S\n]+")
_RULE = re.compile(r"\s*([-*_=~])(?:\s*\1){2,}\s*")
_BULLET = re.compile(r"[-+*\u2022\u2013]\s+(?=[^\W\d_]{2})")
_COMMAND = re.compile(r"\\(?:boxed|fbox|begin|end)(?![A-Za-z])")
_GOING = re.compile(rf"\b(?:{JOINING}|add|subtract|multiply|divide)\b", re.IGNORECASE)
_COUNT = re.compile(r"(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b", re.IGNORECASE)
_OPEN = re.compile(rf"(?:\b(?:{JOINING}|of|the)[\s:]*|\\[A-Za-z]+)$", re.IGNORECASE)
_SHOWN = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}|\\q?quad(?![A-Za-z])")
_WRAPPING = re.compile(
    r"[`\"\u201c\u201d\u201e\u00ab\u00bb\u2713\u2714\u2705\ufe0f]|</?[A-Za-z]+>|(?<!\w)_+|^#+\s"
)


def final_in(text: str) -> Expression | None:
    """Return the expression that a text ends with, None when it ends with none.

    In this order: the last box; what follows "answer is" or "Answer:"; the last line that has one, where
    a line that says which numbers are left is a step and no end. A final statement that gives a number
    but no expression is no answer.

    The expression stands alone, in its wrapping, with words that are known to change nothing, or equal to
    its claimed result. Whatever else is joined to it might make it another one, so it is no answer.
    """
    rest = after_thinking(text)
    if rest is None:
        return None
    box, unclosed = last_box(rest)
    if box is None and unclosed:
        return None
    rest = _rejoined(rest)
    found, states = stated_in(rest)
    if states:
        return found
    lines = (line for line in reversed(rest.splitlines()) if LEFT.search(line) is None)
    return next((alone_in(line) for line in lines if _calculates(line)), None)


def stated_in(text: str) -> tuple[Expression | None, bool]:
    """Return the expression that a text states as its end, and whether it states anything as that."""
    # Statements are cut off by length, so blanks must not hide what follows.
    text = _BLANKS.sub(" ", text)
    box, _ = last_box(text)
    if box is not None:
        found = _boxed(text, box)
        return found, found is not None or any(char.isdigit() for char in box)
    for one in statement(_STOP.sub("\u2024", text), None):
        # Where it may have been cut, nobody knows what followed.
        found = _alone(one) if len(one) < _CUT else None
        if found is not None or any(char.isdigit() for char in one):
            return found, True
    return None, False


def alone_in(line: str) -> Expression | None:
    """Return the expression that stands in a line, behind its bullet or number, with nothing joined to it."""
    return _alone(_HEAD.sub("", line))


def _alone(text: str) -> Expression | None:
    """Return the expression that stands in a text with nothing but harmless words and true results."""
    parts = _PARTS.fullmatch(_bare(text)) if len(text) <= _LINE else None
    if parts is None or not (_FRONT.fullmatch(parts[1]) and _BACK.fullmatch(parts[3])):
        return None
    if parts[3][:1].isalpha() and not parts[2][-1].isspace():
        return None
    chain = chain_of(parts[2])
    return next((side for side in chain or () if isinstance(side.tree, Operation)), None)


def joined(before: str, line: str) -> bool:
    """Return whether a line may go on with an expression of the line before it."""
    return _goes_on(line) or _left_open(before)


def _goes_on(line: str) -> bool:
    if _RULE.fullmatch(line):
        return False
    plain = _bare(line)
    bullet = _BULLET.match(plain)
    if bullet is not None:
        plain = plain[bullet.end() :]
        if _COUNT.match(plain):
            return True
    elif plain and is_sign(plain[0]) and not _COMMAND.match(plain):
        return True
    return _GOING.match(plain) is not None


def _calculates(line: str) -> bool:
    plain = _bare(line)
    return any(char.isdigit() for char in plain) and (
        any(map(is_sign, plain)) or _GOING.search(plain) is not None
    )


def _boxed(text: str, box: str) -> Expression | None:
    r"""Return the expression of the box, unless what stands next to the box joins it to more."""
    found = _alone(box)
    places = [*re.finditer(rf"\\(?:boxed|fbox)\s*\{{\s*{re.escape(box)}\s*\}}", text)]
    if found is None or not places:
        return None
    before = text[: places[-1].start()].rpartition("\n")[2]
    after = text[places[-1].end() :].partition("\n")[0]
    if len(before) + len(after) > _LINE:
        return None
    before, after = _bare(before), _bare(after)
    claims = _CLAIMED_BEFORE.search(before), _CLAIMED_AFTER.match(after)
    if claims[0]:
        before = before[: claims[0].start()]
    if claims[1]:
        after = after[claims[1].end() :]
    if _PART_OF.search(before) or not (_BEFORE.search(before) and _AFTER.match(after)):
        return None
    chain = "=".join([*(claim[1] for claim in claims if claim), f"({found.text})"])
    return found if chain_of(chain) else None


def _rejoined(text: str) -> str:
    """Return a text whose lines that may belong to one expression are one line, without empty lines."""
    lines: list[str] = []
    for line in _BLANKS.sub(" ", text).splitlines():
        if not line.strip():
            continue
        if lines and joined(lines[-1], line):
            lines[-1] += f" {line}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _left_open(line: str) -> bool:
    end = line[-80:]
    if _RULE.fullmatch(end):
        return False
    plain = _bare(end)
    return is_sign(plain[-1:] or " ") or _OPEN.search(plain) is not None


def _bare(text: str) -> str:
    """Return a text in plain signs, in one line, without what an answer is usually wrapped in."""
    return " ".join(_WRAPPING.sub(" ", plain_line(_SHOWN.sub(r" \1 ", text))).split()).strip("_ ")


def solves(expression: Expression, problem: Problem) -> bool:
    """Return whether an expression is right, by what the problem says and nothing else."""
    used, given = Counter(expression.numbers), Counter(map(Fraction, problem.data["numbers"]))
    allowed = used == given if problem.data["all"] else used <= given
    return allowed and expression.value == problem.data["target"]
