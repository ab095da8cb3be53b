"""Where users of a release have it from; it is `venturi.common.units`."""

from venturi.common.units import *  # noqa: F403
