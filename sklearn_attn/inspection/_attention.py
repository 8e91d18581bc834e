"""Where a fitted model looks."""

from numbers import Integral

import numpy as np
from sklearn.pipeline import Pipeline

from ..ragged import RaggedArray
from ._axes import axes_or_new
from ._layers import layers


class AttentionDisplay:
    """Attention weights of a few sequences as a heat map or as bars, one row per sequence.

    Build it with `from_estimator` or `from_weights`; all arguments are kept as attributes.

    Parameters
    ----------
    weights : list of ndarray of shape (L_i,)
        Attention weight of every token.
    locations : array-like of int of shape (n,), optional
        A token of each sequence to mark, such as the hidden location of a synthetic task.
    labels : list of str of length n, optional
        Names of the sequences.
    tokens : list of lists of L_i str, optional
        Names of the tokens, such as words, written where they stand.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
        Of a heat map.
    bars_ : list of matplotlib BarContainer
        Of bars, one per sequence.

    Raises
    ------
    ValueError
        If there are no weights, or `locations`, `labels` or `tokens` do not match them.

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

    def __init__(self, weights, *, locations=None, labels=None, tokens=None):
        weights = [np.asarray(w, dtype=np.float64) for w in weights]
        for i, w in enumerate(weights):
            if w.ndim != 1 and w.shape[1:] != (1,):
                raise ValueError(
                    f"weights[{i}] must have shape (L,) or (L, 1), one number per token, got {w.shape}; of "
                    "several columns, such as the classes of token_contributions, pass one: "
                    "[w[:, 0] for w in weights]."
                )
        weights = [w.reshape(-1) for w in weights]
        if not len(weights) or not all(w.size for w in weights):
            raise ValueError("Pass the attention weights of at least one sequence, none of them empty.")
        for name, given in (("locations", locations), ("labels", labels), ("tokens", tokens)):
            if given is not None and len(given) != len(weights):
                raise ValueError(f"{name} has {len(given)} entries for {len(weights)} sequences.")
        for i, location in enumerate(() if locations is None else locations):
            if not isinstance(location, Integral):
                raise TypeError(f"locations[{i}] must be an int, got {location!r}.")
            if not 0 <= location < len(weights[i]):
                raise ValueError(
                    f"locations[{i}] = {location} lies outside sequence {i} of {len(weights[i])} tokens."
                )
        for i, names in enumerate(() if tokens is None else tokens):
            if not isinstance(names, list | tuple | np.ndarray) or len(names) != len(weights[i]):
                raise ValueError(
                    f"tokens[{i}] must be a list of {len(weights[i])} names, one per token, got "
                    f"{names!r:.60}."
                )
        self.weights = weights
        self.locations = locations
        self.labels = labels
        self.tokens = tokens

    @classmethod
    def from_estimator(cls, estimator, X, *, locations=None, labels=None, tokens=None):
        """Compute the weights with a fitted estimator, a Pipeline that ends in one, or a search over either.

        Parameters
        ----------
        estimator : fitted attention regressor or classifier, Pipeline, search or TransformedTargetRegressor
        X : RaggedArray, list or array
            The few sequences to show, in any form that the estimator takes.
        locations, labels, tokens : optional
            As in the class.

        Returns
        -------
        AttentionDisplay
        """
        for layer in layers(estimator):
            if isinstance(layer, Pipeline) and len(layer) > 1:
                X = layer[:-1].transform(X)
        if not hasattr(layer, "attention_weights"):
            raise TypeError(
                f"{type(layer).__name__} has no attention_weights; pass the fitted attention regressor or "
                "classifier."
            )
        weights = layer.attention_weights(X)
        return cls.from_weights(weights, locations=locations, labels=labels, tokens=tokens)

    @classmethod
    def from_weights(cls, weights, *, locations=None, labels=None, tokens=None):
        """Show weights that are already known.

        Parameters
        ----------
        weights : RaggedArray or list of array-likes of shape (L_i,) or (L_i, 1)
            What `attention_weights` returns, or any other weights.
        locations, labels, tokens : optional
            As in the class.

        Returns
        -------
        AttentionDisplay
        """
        if not isinstance(weights, RaggedArray | list | tuple):
            raise TypeError(
                f"weights must be a RaggedArray or a list of arrays, got {type(weights).__name__}."
            )
        return cls(weights, locations=locations, labels=labels, tokens=tokens)

    def plot(self, ax=None, *, kind="heatmap", cmap=None, colorbar=True):
        """Draw the weights.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            By default a new figure's.
        kind : {"heatmap", "bars"}, default="heatmap"
            Colours show many sequences at once; bars, each from the line of its sequence, the sizes of a few.
        cmap : str or Colormap, optional
            Of the heat map; by default "Blues", or "RdBu" around zero where weights have both signs.
        colorbar : bool, default=True
            Whether to add one to the heat map.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If `kind` is neither.
        ImportError
            If matplotlib is not installed.
        """
        if kind not in ("heatmap", "bars"):
            raise ValueError(f"kind must be 'heatmap' or 'bars', got {kind!r}.")
        ax = axes_or_new(ax, self)
        n, longest = len(self.weights), max(w.size for w in self.weights)
        ax.set(xlabel="token", ylabel="sequence", xlim=(-0.5, longest - 0.5))
        if kind == "bars":
            self._draw_bars(ax)
            ax.set_ylim(n - 0.35, -0.5)
        else:
            self._draw_heatmap(ax, longest, cmap, colorbar)
            ax.set_ylim(n - 0.5, -0.5)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_yticks(range(n), range(n) if self.labels is None else self.labels, parse_math=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_heatmap(self, ax, longest, cmap, colorbar):
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
            self._write_tokens(ax, i, i, "center", lambda w: "white" if abs(w) > 0.6 * high else "black")
        if self.locations is not None:
            ax.scatter(
                self.locations, range(len(self.weights)), marker="s", facecolors="none",
                s=60 if self.tokens is None else 300, edgecolors="tab:red", label="hidden location",
            )  # fmt: skip
        if colorbar:
            ax.figure.colorbar(self.image_, ax=ax, label="attention weight")

    def _draw_bars(self, ax):
        """Draw sequence i upwards from the line y = i + 0.3 (y points down), the largest bar 0.75 high."""
        largest = max(np.abs(w).max() for w in self.weights) or 1.0
        self.bars_ = []
        for i, w in enumerate(self.weights):
            line = i + (0.3 if min(v.min() for v in self.weights) >= 0.0 else 0.0)
            room = 0.75 if line > i else 0.4
            colors = ["tab:blue"] * w.size
            if self.locations is not None:
                colors[self.locations[i]] = "tab:red"
            self.bars_.append(ax.bar(range(w.size), -room * w / largest, bottom=line, color=colors))
            ax.plot([-0.5, w.size - 0.5], [line, line], "0.6", lw=0.8)
            ax.set_ylabel(f"sequence (highest bar: attention weight {largest:.2g})")
            self._write_tokens(ax, i, i + 0.32 if line > i else i + 0.42, "top", lambda _: "black")

    def _write_tokens(self, ax, i, y, va, color):
        for x, name in enumerate(() if self.tokens is None else self.tokens[i]):
            ax.text(
                x,
                y,
                name,
                ha="center",
                va=va,
                fontsize="x-small",
                parse_math=False,
                color=color(self.weights[i][x]),
            )
