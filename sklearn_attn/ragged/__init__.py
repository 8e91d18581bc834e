"""Sequences of unequal length as one packed buffer."""

from ._container import RaggedArray
from ._files import load_ragged, save_ragged
from ._segments import Segments
from ._validation import all_at_once, check_ragged, is_table, set_features, validate_ragged

__all__ = [
    "RaggedArray",
    "Segments",
    "all_at_once",
    "check_ragged",
    "is_table",
    "load_ragged",
    "save_ragged",
    "set_features",
    "validate_ragged",
]
