"""Sequences of unequal length as one packed buffer."""

from ._container import RaggedArray
from ._validation import check_ragged, validate_ragged

__all__ = ["RaggedArray", "check_ragged", "validate_ragged"]
