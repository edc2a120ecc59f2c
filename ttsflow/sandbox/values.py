"""Plain Python values as bytes, between an interpreter that is trusted and one that is not.

Numbers, text, bytes, None, lists, tuples, sets and dicts, in each other. An object of a subclass travels as
the plain value it is based on, so that its own ``__eq__`` stays behind; any other object arrives as a
``Foreign``, which equals nothing. Decoding runs no code of the sender and makes nothing but these types.
"""

from __future__ import annotations

from struct import pack, unpack

TYPE_CHECKING = False  # typing takes longer to load than most code takes to run
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

__all__ = ["Foreign", "decode", "encode"]

_DEPTH = 100
_CONSTANTS = {b"N": None, b"T": True, b"F": False}


class Foreign:
    """Stands for an object that is no plain value; all that is known is the name of its type."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<an object of type {self.name}>"


def encode(value: object) -> bytes:
    """Return a value as bytes. Raises ``ValueError`` for one nested too deep."""
    parts: list[bytes] = []
    _write(value, parts.append, _DEPTH)
    return b"".join(parts)


def decode(data: bytes) -> Any:
    """Return the value in ``data``. Raises ``ValueError`` when there is none."""
    reader = _Reader(data)
    try:
        value = reader.value(_DEPTH)
    except (IndexError, TypeError, UnicodeDecodeError, OverflowError) as error:
        msg = f"no value: {error}"
        raise ValueError(msg) from error
    if reader.at != len(data):
        msg = "there is more than one value"
        raise ValueError(msg)
    return value


def _write(value: object, put: Callable[[bytes], None], depth: int) -> None:
    if depth < 0:
        msg = f"a value nested more than {_DEPTH} deep"
        raise ValueError(msg)
    for tag, constant in _CONSTANTS.items():
        if value is constant:
            return put(tag)
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value, put, depth)
    return _sized(b"x", type(value).__name__.encode("utf-8", "replace")[:100], put)


def _sized(tag: bytes, data: bytes, put: Callable[[bytes], None]) -> None:
    put(tag + pack(">I", len(data)))
    put(data)


def _int(value: int, put: Callable[[bytes], None], depth: int) -> None:
    del depth
    number = int.__index__(value)
    _sized(b"i", number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True), put)


def _many(tag: bytes, members: list[Any], put: Callable[[bytes], None], depth: int, each: int = 1) -> None:
    put(tag + pack(">I", len(members) // each))
    for member in members:
        _write(member, put, depth - 1)


# The methods of the plain types are named, as a subclass may have others.
_FORMS: tuple[tuple[type | tuple[type, ...], Callable[..., None]], ...] = (
    (int, _int),
    (float, lambda value, put, _: put(b"f" + pack(">d", float.__float__(value)))),
    (complex, lambda value, put, _: put(b"c" + pack(">dd", value.real, value.imag))),
    (str, lambda value, put, _: _sized(b"s", str.encode(value, "utf-8", "surrogatepass"), put)),
    ((bytes, bytearray), lambda value, put, _: _sized(b"b", bytes(memoryview(value)), put)),
    (list, lambda value, put, depth: _many(b"l", [*list.__iter__(value)], put, depth)),
    (tuple, lambda value, put, depth: _many(b"t", [*tuple.__iter__(value)], put, depth)),
    (set, lambda value, put, depth: _many(b"e", [*set.__iter__(value)], put, depth)),
    (frozenset, lambda value, put, depth: _many(b"z", [*frozenset.__iter__(value)], put, depth)),
    (dict, lambda value, put, depth: _many(b"d", [p for i in dict.items(value) for p in i], put, depth, 2)),
)


class _Reader:
    """A place in bytes that somebody else wrote."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def value(self, depth: int) -> Any:
        tag = self._take(1)
        if depth < 0:
            raise IndexError("nested too deep")
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"f":
            return unpack(">d", self._take(8))[0]
        if tag == b"c":
            return complex(*unpack(">dd", self._take(16)))
        size = unpack(">I", self._take(4))[0]
        if tag in _SIZED:
            return _SIZED[tag](self._take(size))
        if tag == b"d":
            return {self.value(depth - 1): self.value(depth - 1) for _ in self._count(2 * size, size)}
        if tag in _MANY:
            return _MANY[tag](self.value(depth - 1) for _ in self._count(size, size))
        raise IndexError("an unknown type")

    def _count(self, least: int, size: int) -> range:
        if least > len(self._data) - self.at:
            raise IndexError("the data ends too early")
        return range(size)

    def _take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self._data):
            raise IndexError("the data ends too early")
        return self._data[start : self.at]


_SIZED: dict[bytes, Callable[[bytes], Any]] = {
    b"i": lambda data: int.from_bytes(data, "big", signed=True),
    b"s": lambda data: data.decode("utf-8", "surrogatepass"),
    b"b": bytes,
    b"x": lambda data: Foreign(data.decode("utf-8", "replace")),
}
_MANY: dict[bytes, Callable[[Iterable[Any]], Any]] = {b"l": list, b"t": tuple, b"e": set, b"z": frozenset}
