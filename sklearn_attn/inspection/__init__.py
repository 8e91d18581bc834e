"""Pictures of fitted models and of what theory predicts; matplotlib is imported when one is drawn."""

from ._attention import AttentionDisplay
from ._theory import TheoryDisplay

__all__ = ["AttentionDisplay", "TheoryDisplay"]
