"""Pictures of fitted models; matplotlib is imported when one is drawn."""

from ._attention import AttentionDisplay

__all__ = ["AttentionDisplay"]
