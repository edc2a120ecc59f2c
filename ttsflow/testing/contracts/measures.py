"""What is relied on in what counts and prices: costs, meters, load monitors, controllers."""

from __future__ import annotations

import json
import math
from typing import Any

from ttsflow.control import Asking, ControllerPart, Listening
from ttsflow.protocols import CostModel
from ttsflow.sensors import LoadMonitor, LoadPart, MeterPart
from ttsflow.testing.contracts.parts import PartContract
from ttsflow.testing.fake import FakeEngine
from ttsflow.types import Usage

__all__ = ["ControllerContract", "CostContract", "LoadContract", "MeterContract"]


class CostContract(PartContract):
    """A cost model prices usage. Needs a fixture ``part``."""

    def test_pure_and_monotone(self, part: CostModel) -> None:
        """Nothing costs nothing, more never costs less, and the same costs the same."""
        small = Usage(prompt=10, output=5, requests=1, seconds=1.0, verifier=3, joules=2.0)
        assert part.unit
        assert part(Usage()) == 0
        assert 0 <= part(small) <= part(small + small)
        assert part(small) == part(small)


class MeterContract(PartContract):
    """A meter counts joules. Needs a fixture ``part`` that can be opened where the tests run."""

    def test_counts_and_never_goes_back(self, part: MeterPart) -> None:
        """It says what it is, starts near 0, and only climbs, also when the clock goes back."""
        part.check()
        meter = part.open()
        if meter is None:
            return
        try:
            assert meter.source
            assert 0 <= meter.window < math.inf
            readings = [meter.read(now) for now in (0.0, 1.0, 1.0, 0.5, 2.0, 1e6)]
            assert all(math.isfinite(joules) and joules >= 0 for joules in readings)
            assert readings == sorted(readings)
        finally:
            meter.close()
            meter.close()


class LoadContract(PartContract):
    """A load monitor says how busy others are. Needs a fixture ``part`` that works where the tests run."""

    def opened(self, part: Any) -> LoadMonitor:
        """Return the working monitor; one that looks at an engine is given a fake one."""
        open_on = getattr(part, "open_on", None)
        monitor: LoadMonitor = part.open() if open_on is None else open_on(FakeEngine(), lambda: 0)
        return monitor

    def test_a_load_lies_between_0_and_1(self, part: LoadPart) -> None:
        """Whenever it is asked, also twice at once or by a clock that goes back; it may be closed twice."""
        part.check()
        monitor = self.opened(part)
        try:
            asked = [(0.0, 0), (0.0, 0), (0.5, 1), (0.25, 1), (3.0, 7), (1e6, 1000)]
            loads = [monitor.read(now, problem) for now, problem in asked]
            assert all(isinstance(load, float) and 0 <= load <= 1 for load in loads), loads
        finally:
            monitor.close()
            monitor.close()


class ControllerContract(PartContract):
    """A controller shares out funds. Needs a fixture ``part``."""

    def test_offers_are_well_formed_and_follow_from_what_was_told(self, part: ControllerPart) -> None:
        """Prices are not negative, no more than is left is granted, and two that are told the same agree."""
        controllers = [part.open("tokens"), part.open("tokens")]
        for controller in controllers:
            controller.begin(8, 1000.0)
        for turn in range(8):
            asking = Asking(1 + turn % 3, turn % 2 == 0, 1000.0 - 90 * turn, 1000.0, 8 - turn, 0.1 * turn)
            first, second = (controller.offer(asking) for controller in controllers)
            assert first == second
            assert first.unit == "tokens"
            assert all(value is None or value >= 0 for value in (first.price, first.margin, first.rate))
            assert first.refused is None or first.refused
            assert first.refused or not first.later, "what is granted now need not wait"
            assert first.alpha is None or first.alpha > 0
            for controller in controllers:
                controller.observe(asking.samples, asking.load, 30.0 * asking.samples)
                if isinstance(controller, Listening):
                    controller.agreed(0, asking.samples, 1)
                controller.closed(30.0 * asking.samples)
        asking = Asking(4, False, 1.0, 1000.0, 1, 0.5)
        last = controllers[0].offer(asking)
        assert last.refused, "four samples of 30 each were granted with 1 left"
        assert not last.later, "what is not there now is not there later"
        last = controllers[0].offer(Asking(4, False, 1000.0, 1000.0, 0, 0.5))
        assert not last.later, "no other problem waits for its first sample"

    def test_what_it_has_learnt_can_be_written(self, part: ControllerPart) -> None:
        """Its state is plain data."""
        controller = part.open("tokens")
        controller.begin(2, 100.0)
        controller.observe(2, 0.0, 50.0)
        if isinstance(controller, Listening):
            controller.agreed(0, 2, 2)
        json.dumps(dict(controller.state()), allow_nan=False)
