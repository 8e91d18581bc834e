"""Ways to fit softmax attention, each from the same start to the same objective.

    J(k, v, b) = sum_i (y_i - b - softmax(X_i k / sqrt(D))^T X_i v / sqrt(D))^2 + alpha (|k|^2 + |v|^2)

A contender is a function of a `Task` that lays the data out and returns `fit()`, which returns the parameters
(k, v, b) and the number of evaluations of J and its gradient. Peers are told the objective at which they may
stop, this package the `tol` with which it gets there. Layout and first compilation are not timed, and favour
the peers.
"""

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from sklearn_attn import SoftmaxAttentionRegressor
from sklearn_attn.preprocessing import SequencePooler

MAX_EVALUATIONS = 3000


class Task(NamedTuple):
    """A problem, where fits start, and the objective at which a peer or the `tol` at which we may stop."""

    X: object
    y: np.ndarray
    alpha: float
    start: np.ndarray | None = None  # (k, v, b) in one vector; this package finds its own
    target: float = -math.inf
    tol: float = 1e-4


class _Reached(Exception):
    """The objective is low enough."""


def _sequence_of_tokens(X):
    """Return the index of the sequence of every token."""
    return np.repeat(np.arange(len(X)), X.lengths)


def _ours(task):
    model = SoftmaxAttentionRegressor(task.alpha, tol=task.tol, max_iter=MAX_EVALUATIONS)

    def fit():
        model.fit(task.X, task.y)
        return np.concatenate([model.key_, model.value_, [model.intercept_]]), model.n_passes_

    return fit


def _torch(layout):
    """PyTorch: autograd through `layout`'s f, and `torch.optim.LBFGS` with its line search."""

    def contender(task):
        import torch

        objective = torch_objective(torch, layout, task)

        def fit():
            theta = torch.from_numpy(task.start.copy()).to(tokens_of(torch, task.X).device).requires_grad_()
            optimiser = torch.optim.LBFGS(
                [theta], max_iter=MAX_EVALUATIONS, max_eval=MAX_EVALUATIONS, tolerance_grad=0.0,
                tolerance_change=0.0, history_size=20, line_search_fn="strong_wolfe",
            )  # fmt: skip
            n_evaluations = 0

            def closure():
                nonlocal n_evaluations
                n_evaluations += 1
                optimiser.zero_grad()
                value = objective(theta)
                if value.item() <= task.target:
                    raise _Reached
                value.backward()
                return value

            with suppress(_Reached):
                optimiser.step(closure)
            return theta.detach().cpu().numpy().copy(), n_evaluations

        return fit

    return contender


def torch_objective(torch, layout, task):
    """Return J(theta), differentiable, where the tokens are and in their dtype."""
    D, alpha = task.X.n_features, task.alpha
    tokens = tokens_of(torch, task.X)
    attention = layout(torch, tokens, task.X)
    y = torch.as_tensor(task.y, dtype=tokens.dtype, device=tokens.device)

    def objective(theta):
        key, value, intercept = theta[:D], theta[D : 2 * D], theta[2 * D]
        error = torch.sum((y - intercept - attention(key, value)) ** 2)
        return error + alpha * (key @ key + value @ value)

    return objective


def tokens_of(torch, X):
    """Return the tokens of a NumPy or CuPy buffer as a tensor that shares it."""
    return torch.from_numpy(X.values) if isinstance(X.values, np.ndarray) else torch.from_dlpack(X.values)


def padded(torch, tokens, X):
    """Return f of sequences that are padded to the longest, with a mask."""
    n, longest, where = len(X), int(X.lengths.max()), {"device": tokens.device}
    sequence = _sequence_of_tokens(X)
    places = sequence * longest + np.arange(X.n_tokens) - X.offsets[sequence]
    places = torch.from_numpy(places).to(**where)
    rows = torch.zeros((n * longest, X.n_features), dtype=tokens.dtype, **where)
    rows[places], hole = tokens, torch.ones(n * longest, dtype=torch.bool, **where)
    hole[places] = False
    rows, hole = rows.reshape(n, longest, -1), hole.reshape(n, longest)
    scale = 1.0 / math.sqrt(X.n_features)

    def attention(key, value):
        scores = (rows @ (key * scale)).masked_fill(hole, -torch.inf)
        return torch.sum(torch.softmax(scores, dim=1) * (rows @ (value * scale)), dim=1)

    return attention


def segments(torch, tokens, X):
    """Return f by sums over the sequences of a packed buffer."""
    n, where = len(X), {"dtype": tokens.dtype, "device": tokens.device}
    sequence = torch.from_numpy(_sequence_of_tokens(X)).to(tokens.device)
    scale = 1.0 / math.sqrt(X.n_features)

    def attention(key, value):
        scores, token_values = tokens @ (key * scale), tokens @ (value * scale)
        top = torch.full((n,), -torch.inf, **where)
        top = top.scatter_reduce(0, sequence, scores.detach(), "amax")
        weights = torch.exp(scores - top[sequence])
        zeros = torch.zeros(n, **where)
        return zeros.index_add(0, sequence, weights * token_values) / zeros.index_add(0, sequence, weights)

    return attention


def _jax(task):
    """JAX: segment operations, compiled value and gradient, and SciPy's L-BFGS-B."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    X, D, n = task.X, task.X.n_features, len(task.X)
    data = jnp.asarray(X.values), jnp.asarray(_sequence_of_tokens(X)), jnp.asarray(task.y)
    scale = 1.0 / math.sqrt(D)

    def objective(theta, tokens, sequence, y):
        key, value, intercept = theta[:D], theta[D : 2 * D], theta[2 * D]
        scores, token_values = tokens @ (key * scale), tokens @ (value * scale)
        segments = {"num_segments": n, "indices_are_sorted": True}
        top = jax.lax.stop_gradient(jax.ops.segment_max(scores, sequence, **segments))
        weights = jnp.exp(scores - top[sequence])
        total = jax.ops.segment_sum(weights, sequence, **segments)
        f = jax.ops.segment_sum(weights * token_values, sequence, **segments) / total
        return jnp.sum((y - intercept - f) ** 2) + task.alpha * (key @ key + value @ value)

    value_and_gradient = jax.jit(jax.value_and_grad(objective))

    def fit():
        n_evaluations, best = 0, None

        def evaluate(theta):
            nonlocal n_evaluations, best
            n_evaluations += 1
            value, gradient = value_and_gradient(theta, *data)
            if float(value) <= task.target:
                best = theta.copy()
                raise _Reached
            return float(value), np.asarray(gradient)

        options = {"maxcor": 20, "maxiter": MAX_EVALUATIONS, "maxfun": MAX_EVALUATIONS, "ftol": 0, "gtol": 0}
        with suppress(_Reached):
            best = minimize(evaluate, task.start, jac=True, method="L-BFGS-B", options=options).x
        return best, n_evaluations

    return fit


CONTENDERS = {
    "sklearn_attn": _ours,
    "JAX, segments": _jax,
    "PyTorch, padded": _torch(padded),
    "PyTorch, segments": _torch(segments),
}


def _pooled(make):
    """Another model, on the means of the tokens: fits another function, so only its time compares."""

    def contender(task):
        pooled = SequencePooler().fit_transform(task.X)
        model = make(task.alpha)

        def fit():
            model.fit(pooled, task.y)
            return None, 0

        return fit

    return contender


OTHER_MODELS = {
    "MLPRegressor, pooled": _pooled(lambda alpha: MLPRegressor(random_state=0)),
    "Ridge, pooled": _pooled(Ridge),
}


def gemv(task):
    """Read X once by BLAS: the limit of one pass."""
    key = np.ones(task.X.n_features)

    def read():
        for _ in range(5):
            task.X.values @ key
        return None, 5

    return read


ALL = CONTENDERS | OTHER_MODELS | {"gemv": gemv}
NEEDS = {"JAX, segments": "jax", "PyTorch, padded": "torch", "PyTorch, segments": "torch"}
