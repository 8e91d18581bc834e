"""Where a fitted model looks."""

from numbers import Integral

import numpy as np
from sklearn.pipeline import Pipeline

from ..ragged import RaggedArray
from ._axes import axes_or_new


class AttentionDisplay:
    """Attention weights of a few sequences as a heat map, one row per sequence.

    Build it with `from_estimator` or `from_weights`; all arguments are kept as attributes.

    Parameters
    ----------
    weights : list of ndarray of shape (L_i,)
        Attention weight of every token.
    locations : array-like of int of shape (n,), optional
        A token of each sequence to mark, such as the hidden location of a synthetic task.
    labels : list of str of length n, optional
        Names of the sequences.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage

    Raises
    ------
    ValueError
        If there are no weights, or `locations` or `labels` do not match them.

    Examples
    --------
    >>> from sklearn_attn import SoftmaxAttentionRegressor
    >>> from sklearn_attn.datasets import make_spiked_slr
    >>> from sklearn_attn.inspection import AttentionDisplay
    >>> X, y = make_spiked_slr(n_samples=400, n_features=20, signal=9.0, length=4, random_state=0)
    >>> model = SoftmaxAttentionRegressor(alpha=0.1).fit(X, y)
    >>> display = AttentionDisplay.from_estimator(model, X[:5])
    >>> display.plot()  # doctest: +SKIP
    """

    def __init__(self, weights, *, locations=None, labels=None):
        weights = [np.asarray(w, dtype=np.float64).reshape(-1) for w in weights]
        if not len(weights):
            raise ValueError("Pass the attention weights of at least one sequence.")
        for name, given in (("locations", locations), ("labels", labels)):
            if given is not None and len(given) != len(weights):
                raise ValueError(f"{name} has {len(given)} entries for {len(weights)} sequences.")
        for i, location in enumerate(() if locations is None else locations):
            if not isinstance(location, Integral):
                raise TypeError(f"locations[{i}] must be an int, got {location!r}.")
            if not 0 <= location < len(weights[i]):
                raise ValueError(
                    f"locations[{i}] = {location} lies outside sequence {i} of {len(weights[i])} tokens."
                )
        self.weights = weights
        self.locations = locations
        self.labels = labels

    @classmethod
    def from_estimator(cls, estimator, X, *, locations=None, labels=None):
        """Compute the weights with a fitted regressor, a Pipeline that ends in one, or a search over either.

        Parameters
        ----------
        estimator : fitted attention regressor, Pipeline, search or TransformedTargetRegressor
        X : RaggedArray, list or array
            The few sequences to show, in any form that the estimator takes.
        locations, labels : optional
            As in the class.

        Returns
        -------
        AttentionDisplay
        """
        for fitted in ("best_estimator_", "regressor_"):  # a search, a TransformedTargetRegressor
            estimator = getattr(estimator, fitted, estimator)
        if isinstance(estimator, Pipeline):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        if not hasattr(estimator, "attention_weights"):
            raise TypeError(
                f"{type(estimator).__name__} has no attention_weights; pass the fitted attention regressor."
            )
        return cls.from_weights(estimator.attention_weights(X), locations=locations, labels=labels)

    @classmethod
    def from_weights(cls, weights, *, locations=None, labels=None):
        """Show weights that are already known.

        Parameters
        ----------
        weights : RaggedArray or list of array-likes of shape (L_i,) or (L_i, 1)
            What `attention_weights` returns, or any other weights.
        locations, labels : optional
            As in the class.

        Returns
        -------
        AttentionDisplay
        """
        if not isinstance(weights, RaggedArray | list | tuple):
            raise TypeError(
                f"weights must be a RaggedArray or a list of arrays, got {type(weights).__name__}."
            )
        return cls(weights, locations=locations, labels=labels)

    def plot(self, ax=None, *, cmap=None, colorbar=True):
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default a new figure's.
        cmap : str or Colormap, optional
            By default "Blues", or "RdBu" around zero where weights have both signs.
        colorbar : bool, default=True
            Whether to add one.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        ax = axes_or_new(ax, self)
        longest = max(w.size for w in self.weights)
        padded = np.full((len(self.weights), longest), np.nan)  # NaN cells stay blank
        for row, w in zip(padded, self.weights, strict=True):
            row[: w.size] = w
        low, high = min(0.0, np.nanmin(padded)), max(0.0, np.nanmax(padded))
        if low < 0.0:  # white is zero
            low, high = -max(-low, high), max(-low, high)
        if cmap is None:
            cmap = "RdBu" if low < 0.0 else "Blues"
        self.image_ = ax.imshow(
            padded, aspect="auto", cmap=cmap, vmin=low, vmax=high or 1.0, interpolation="nearest"
        )
        for i, w in enumerate(self.weights):  # the outline of each sequence, as the rest is blank
            ax.plot(
                [-0.5, w.size - 0.5, w.size - 0.5, -0.5], [i - 0.5, i - 0.5, i + 0.5, i + 0.5], "0.8", lw=0.5
            )
        if self.locations is not None:
            ax.scatter(
                self.locations, range(len(self.weights)), marker="s", s=60, facecolors="none",
                edgecolors="tab:red", label="hidden location",
            )  # fmt: skip
        ax.set(xlabel="token", ylabel="sequence", xlim=(-0.5, longest - 0.5))
        ax.set_ylim(len(self.weights) - 0.5, -0.5)
        ax.xaxis.get_major_locator().set_params(integer=True)
        labels = range(len(self.weights)) if self.labels is None else self.labels
        ax.set_yticks(range(len(self.weights)), labels)
        if colorbar:
            ax.figure.colorbar(self.image_, ax=ax, label="attention weight")
        self.ax_, self.figure_ = ax, ax.figure
        return self
