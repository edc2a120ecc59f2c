"""Pictures that are drawn while the rest of the report is made.

Drawing takes a third of the time of a large report, and holds the interpreter's lock meanwhile. So a process
of its own draws one picture after another, each from the moment it is known what is in it.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from ttsflow.reporting.drawing import Spec, drawn, for_page, whole
from ttsflow.tasks.worker import GradingError, Worker, boot, questions

__all__ = ["Drawer", "serve"]

_STARTUP, _PICTURE = 60.0, 60.0  # seconds until the process is taken for lost
#: Drawn first of all, while runs are read: it takes ten times as long as any after it.
_FIRST: Spec = {"data": {"values": []}, "mark": "point"}


class Drawer:
    """A context manager: draws what is asked for inside, in order.

    Where no process can be started, or it is lost, this process draws, later and the same.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = Worker("drawing", lambda: boot(__name__), startup=_STARTUP)
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="drawing")

    def __enter__(self) -> Self:
        """Start the process, and wait for nothing."""
        self._asking.submit(self._asked, whole(_FIRST, "white"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw what was asked for, or after an error forget it; end the process."""
        self._asking.shutdown(cancel_futures=error is not None)
        if self._worker is not None:
            self._worker.close()

    def svg(self, spec: Spec, name: str) -> Future[str]:
        """Return a picture for a page, see ``for_page``, once it is drawn."""
        return self._asking.submit(lambda: for_page(self._drawn(whole(spec, "transparent")), name))

    def svg_file(self, spec: Spec) -> Future[str]:
        """Return a picture for a file of its own, once it is drawn."""
        return self._asking.submit(self._drawn, whole(spec, "white"))

    def _drawn(self, text: str) -> str:
        found = self._asked(text)
        return drawn(text) if found is None else found

    def _asked(self, text: str) -> str | None:
        """Return what the process has drawn; None where it has not."""
        if self._worker is None:
            return None
        try:
            self._worker.ask(text)
            found: str | None = self._worker.reply(_PICTURE)
        except (GradingError, OSError, ValueError):
            self._worker.close()
            self._worker = None
            return None
        return found


def serve() -> None:
    """Draw what standard input asks for until it ends: the side of the process."""
    for text, say in questions(None, lambda: None):
        try:
            say(drawn(text))
        except Exception:  # noqa: BLE001 - whoever asked draws it again, and meets what is wrong
            say(None)
