"""The compiled half."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ExitCode, VenturiError

__all__ = ["load_core"]


def load_core() -> Any:
    """The compiled half. Raises VenturiError where this installation has none."""
    try:
        import importlib

        return importlib.import_module("venturi._core")
    except ImportError as error:
        raise VenturiError(
            f"the compiled part of Venturi (venturi._core) cannot be loaded: {error}",
            ExitCode.INTERNAL,
            hint="install the wheel (pip install venturi), or build it here with: maturin develop --release",
        ) from None
