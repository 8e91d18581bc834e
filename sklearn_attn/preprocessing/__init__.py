"""Transformers between ragged sequences and what the rest of scikit-learn takes."""

from ._rows import SequencePadder, SequencePooler
from ._tokens import TokenTransformer

__all__ = ["SequencePadder", "SequencePooler", "TokenTransformer"]
