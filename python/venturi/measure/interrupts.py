"""What Ctrl-C does to a run."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

from venturi.common.errors import ExitCode
from venturi.common.runtime import ending, is_program
from venturi.engine.executor import TrialControl

__all__ = ["Interrupts"]


class Interrupts:
    """Ctrl-C, SIGTERM and SIGHUP. The first cancels the trial and ends the sweep, which is kept. The second
    waits for no trial. A third one ends the process of the command line, which then does not even wait for
    what was started to end; a library raises KeyboardInterrupt, after the first one when all is kept."""

    def __init__(self) -> None:
        self.asked = False
        self._left = False
        self._control: TrialControl | None = None
        self._before: dict[int, Any] = {}

    def guard(self, control: TrialControl | None) -> bool:
        """Tells what runs now (None: nothing); answers whether to go on."""
        self._control = control
        return not self.asked

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._left and is_program():
            os._exit(ExitCode.INTERRUPTED)
        if self.asked:
            # Nothing is lost: every trial that ended is on disk. What was started and made goes.
            self._left = True
            raise KeyboardInterrupt
        self.asked = True
        if self._control is not None:
            self._control.cancel()

    def __enter__(self) -> Interrupts:
        # Only the main thread may take signals; in a notebook's worker thread they stay as they are.
        if threading.current_thread() is threading.main_thread():
            for number in ending():
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
        if self.asked and kind is None and not is_program():
            raise KeyboardInterrupt
