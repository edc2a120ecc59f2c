"""Files and folders that a person has named: what cannot be one is refused in words."""

from __future__ import annotations

from pathlib import Path

from ttsflow.errors import ConfigError, DataError

__all__ = ["named_path"]


def named_path(asked: str, place: str, error: type[ConfigError] = DataError) -> Path:
    """Return the path of a file or folder, which need not exist; ``~`` is the home of a user.

    Raises ``error`` at the setting ``place`` for a text that no file can have as its name (a user that is not
    known, a null character, too many characters) and where the way to it may not be looked at.
    """
    try:
        path = Path(asked).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, RuntimeError, ValueError) as found:
        named = asked if len(asked) <= 200 else f"{asked[:200]}..."
        reason = getattr(found, "strerror", None) or found
        raise error(f"{named!r} cannot be read: {reason}", place) from found
    return path
