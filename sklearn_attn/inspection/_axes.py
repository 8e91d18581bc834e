"""Axes to draw on."""


def axes_or_new(ax, display):
    """Return the axes given, or those of a new figure; `display` is named where matplotlib is missing."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__}.plot needs matplotlib: pip install 'sklearn_attn[plot]'."
        ) from error
    return plt.subplots(layout="constrained")[1] if ax is None else ax
