"""Where users of a release have it from; it is `venturi.common.errors`."""

from venturi.common.errors import *  # noqa: F403
