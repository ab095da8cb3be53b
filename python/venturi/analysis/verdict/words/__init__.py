"""Reasons as sentences: hits, what was seen beside them, remedies, findings. Nothing reads them."""
