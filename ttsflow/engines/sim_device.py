"""The clock of a simulated device, which one or two models share."""

from __future__ import annotations

from ttsflow.costs.hardware import Hardware
from ttsflow.costs.roofline import Span

__all__ = ["Device"]


class Device:
    """Passes time. What one model does in the background runs beside the work of the other.

    Two models that run at once slow each other down where together they would need more than all of the
    device's compute or bandwidth: both then go at the rate that is left. ``share`` is the part of its memory
    that the engine has, ``compute`` and ``memory`` are the seconds that its work has kept them busy.
    """

    def __init__(self, hardware: Hardware, share: float) -> None:
        self.hardware = hardware
        self.share = share
        self.reset()

    def reset(self) -> None:
        """Set the clock back and forget the background."""
        self.clock = self.compute = self.memory = 0.0
        self.busy = False
        self.background = Span(0.0, 0.0, 0.0)

    def work(self, span: Span) -> None:
        """Pass the time of some work, beside what is in the background."""
        behind = self.background
        self.compute += span.compute * span.seconds
        self.memory += span.memory * span.seconds
        both = min(span.seconds, behind.seconds)
        slower = max(1.0, span.compute + behind.compute, span.memory + behind.memory)
        self.clock += both * slower + (span.seconds - both)
        self.background = behind._replace(seconds=behind.seconds - both)

    def since(self, clock: float, compute: float, memory: float) -> Span:
        """Return the work done since ``clock``, ``compute`` and ``memory`` stood so, with its mean shares."""
        seconds = self.clock - clock
        if not seconds:
            return Span(0.0, 0.0, 0.0)
        return Span(seconds, (self.compute - compute) / seconds, (self.memory - memory) / seconds)

    def wait(self) -> None:
        """Pass the time of what is left in the background, alone."""
        self.clock += self.background.seconds
        self.background = Span(0.0, 0.0, 0.0)
