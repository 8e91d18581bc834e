"""Where fitted models look, what they use, and what theory predicts; matplotlib is imported to draw."""

from ._attention import AttentionDisplay
from ._path import PenaltyPathDisplay
from ._permutation import token_permutation_importance
from ._theory import TheoryDisplay

__all__ = ["AttentionDisplay", "PenaltyPathDisplay", "TheoryDisplay", "token_permutation_importance"]
