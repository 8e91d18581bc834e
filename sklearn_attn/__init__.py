"""Single-head attention regressors on sequences of unequal length, with data and theory."""

from .ragged import RaggedArray

__version__ = "0.1.0"

__all__ = ["RaggedArray"]
