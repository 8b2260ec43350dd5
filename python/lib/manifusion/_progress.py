"""A line about the progress on standard error, rewritten in terminals and notebooks."""

from __future__ import annotations

import sys
from types import TracebackType

_WIDTH = 24


class Progress:
    """Called with a line and the share that is done; the line is erased at the end."""

    def __init__(self) -> None:
        self._written = 0

    def __call__(self, line: str, share: float | None) -> None:
        if share is not None:
            done = int(share * _WIDTH)
            line = "█" * done + "░" * (_WIDTH - done) + " " + line
        sys.stderr.write("\r" + line.ljust(self._written))
        sys.stderr.flush()
        self._written = len(line)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._written:
            sys.stderr.write("\r" + " " * self._written + "\r")
            sys.stderr.flush()
