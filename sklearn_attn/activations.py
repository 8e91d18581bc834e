"""Attention activations: from the scores of a sequence to the weights of its tokens.

Every activation is one elementwise function, its potential u, and one flag:

    normalised    sigma(chi) = exp(u(chi_l)) / sum_m exp(u(chi_m))
    otherwise     sigma(chi) = u(chi_l)

Functions work on dense scores of shape (..., L), a sequence along the last axis, in any array-API
namespace. To add an activation, subclass `Activation`, list it in `ACTIVATIONS`, and the tests that
run over the registry check it. It runs through the generic objective until it also has a branch
in the fused CPU kernel.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from ._backend import array_namespace, erf

_TWO_OVER_SQRT_PI = 2.0 / math.sqrt(math.pi)
# Below this score softplus(x) = exp(x) to float64 precision, and log(softplus(x)) = x.
_SOFTPLUS_TAIL = -38.0
# Beyond this argument erf' = 0 even in float64; its square must not overflow in float32.
_ERF_TAIL = 30.0


@dataclass(frozen=True)
class Activation:
    """Weights of the tokens of a sequence, given their scores.

    Attributes
    ----------
    name : str
        Its name in the registry `ACTIVATIONS`.
    normalised : bool
        Whether the weights of a sequence are positive and sum to one.
    has_offset : bool
        Whether a constant `offset` is added to every score.
    """

    name: ClassVar[str]
    normalised: ClassVar[bool]
    has_offset: ClassVar[bool] = False

    def potential(self, scores):
        """Evaluate u(chi) elementwise."""
        raise NotImplementedError

    def slope(self, scores):
        """Evaluate du/dchi elementwise."""
        raise NotImplementedError

    def weights(self, scores):
        """Compute sigma(chi), the attention weights.

        Parameters
        ----------
        scores : array of shape (..., L)
            The scores chi of whole sequences along the last axis.

        Returns
        -------
        array of shape (..., L)
            In the namespace and dtype of `scores`.
        """
        potential = self.potential(scores)
        if not self.normalised:
            return potential
        xp = array_namespace(scores)
        unnormalised = xp.exp(potential - xp.max(potential, axis=-1, keepdims=True))
        return unnormalised / xp.sum(unnormalised, axis=-1, keepdims=True)

    def pullback(self, scores, cotangent):
        """Compute J^T g with J = dsigma/dchi, the gradient of ``sum(g * sigma(chi))``.

        Parameters
        ----------
        scores : array of shape (..., L)
        cotangent : array of shape (..., L)
            The derivative g of some scalar with respect to the weights.

        Returns
        -------
        array of shape (..., L)
            The derivative of that scalar with respect to the scores: ``u' g`` if unnormalised,
            else ``sigma u' (g - sum_l sigma_l g_l)``.
        """
        slope = self.slope(scores)
        if not self.normalised:
            return slope * cotangent
        xp = array_namespace(scores)
        weights = self.weights(scores)
        mean = xp.sum(weights * cotangent, axis=-1, keepdims=True)
        return weights * slope * (cotangent - mean)


@dataclass(frozen=True)
class Softmax(Activation):
    """sigma(chi)_l = exp(chi_l) / sum_m exp(chi_m)."""

    name = "softmax"
    normalised = True

    def potential(self, scores):
        """Return the scores themselves."""
        return scores

    def slope(self, scores):
        """Return ones."""
        return array_namespace(scores).ones_like(scores)


@dataclass(frozen=True)
class Linear(Activation):
    """sigma(chi)_l = 1 + chi_l."""

    name = "linear"
    normalised = False

    def potential(self, scores):
        """Return 1 + chi."""
        return 1.0 + scores

    def slope(self, scores):
        """Return ones."""
        return array_namespace(scores).ones_like(scores)


@dataclass(frozen=True)
class Erf(Activation):
    """sigma(chi)_l = 1 + erf(offset + chi_l).

    Parameters
    ----------
    offset : float, default=0.0
        The constant c. Its derivative is the sum of the pullback over the tokens.
    """

    offset: float = 0.0
    name = "erf"
    normalised = False
    has_offset = True

    def potential(self, scores):
        """Return 1 + erf(c + chi)."""
        return 1.0 + erf(self.offset + scores)

    def slope(self, scores):
        """Return 2 / sqrt(pi) exp(-(c + chi)^2)."""
        xp = array_namespace(scores)
        argument = xp.clip(self.offset + scores, -_ERF_TAIL, _ERF_TAIL)
        return _TWO_OVER_SQRT_PI * xp.exp(-(argument**2))

    def with_offset(self, offset):
        """Return the same activation at another offset."""
        return replace(self, offset=offset)


@dataclass(frozen=True)
class Softplus(Activation):
    """sigma(chi)_l = softplus(chi_l) / sum_m softplus(chi_m), with softplus(x) = log(1 + e^x).

    The potential is log(softplus), so that sequences whose scores are all far below zero keep
    weights that sum to one.
    """

    name = "softplus"
    normalised = True

    def potential(self, scores):
        """Return log(softplus(chi)), which is chi itself far below zero."""
        xp = array_namespace(scores)
        _, softplus = self._sigmoid_and_softplus(xp, scores)
        return xp.where(scores > _SOFTPLUS_TAIL, xp.log(softplus), scores)

    def slope(self, scores):
        """Return sigmoid(chi) / softplus(chi), which is 1 far below zero."""
        xp = array_namespace(scores)
        sigmoid, softplus = self._sigmoid_and_softplus(xp, scores)
        return xp.where(scores > _SOFTPLUS_TAIL, sigmoid / softplus, xp.ones_like(scores))

    @staticmethod
    def _sigmoid_and_softplus(xp, scores):
        # Scores below the tail are replaced by it: they are handled by the caller's `where`, and
        # must not reach log(0) on the way.
        scores = xp.clip(scores, _SOFTPLUS_TAIL, None)
        decay = xp.exp(-xp.abs(scores))
        sigmoid = xp.where(scores >= 0, xp.ones_like(decay), decay) / (1.0 + decay)
        return sigmoid, xp.clip(scores, 0.0, None) + xp.log1p(decay)


ACTIVATIONS = {activation.name: activation for activation in (Softmax, Linear, Erf, Softplus)}


def get_activation(name, offset=0.0):
    """Look up an activation by its name.

    Parameters
    ----------
    name : {"softmax", "linear", "erf", "softplus"}
    offset : float, default=0.0
        Used where the activation has one.

    Returns
    -------
    Activation

    Raises
    ------
    ValueError
        If the name is not registered.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {sorted(ACTIVATIONS)}, got {name!r}.")
    activation = ACTIVATIONS[name]
    return activation(offset) if activation.has_offset else activation()
