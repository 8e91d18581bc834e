"""Data to fit and to learn from: the single-location regression task, and real text."""

from ._review_needles import load_review_needles
from ._slr import SLRDataset, make_max_slr, make_spiked_slr

__all__ = ["SLRDataset", "load_review_needles", "make_max_slr", "make_spiked_slr"]
