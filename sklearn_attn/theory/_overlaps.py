"""Order parameters: all that the risk of an attention regressor depends on in high dimension."""

import math
from dataclasses import asdict, astuple, dataclass
from numbers import Real

import numpy as np

from .._backend import to_numpy

# How far rounding may take the smallest eigenvalue of a Gram matrix of unit scale below zero.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Overlaps:
    """The order parameters of a key k and a value v, given the hidden directions k* and v*.

    Parameters
    ----------
    m_key, m_value : float
        k.k*/D and v.v*/D.
    q_key, q_value : float
        k.k/D and v.v/D.
    m_key_value, m_value_key, q_key_value : float, default=0.0
        The cross terms k.v*/D, v.k*/D and k.v/D, which vanish on the symmetric manifold of the
        single-location regression task.
    m_star : float, default=0.0
        k*.v*/D, which belongs to the data: 0 for infinitely many features, of the order of 1 / sqrt(D) for
        directions drawn at random.

    Raises
    ------
    TypeError
        If one is no number.
    ValueError
        If no directions have these overlaps: their Gram matrix would have a negative eigenvalue.

    References
    ----------
    .. [1] O. Duranthon, P. Marion, C. Boyer, B. Loureiro, L. Zdeborova, arXiv:2509.21936.
    """

    m_key: float
    m_value: float
    q_key: float
    q_value: float
    m_key_value: float = 0.0
    m_value_key: float = 0.0
    q_key_value: float = 0.0
    m_star: float = 0.0

    def __post_init__(self):
        for name, number in asdict(self).items():
            if not isinstance(number, Real) or isinstance(number, bool):
                raise TypeError(f"{name} must be a number, got {number!r}.")
        if not all(math.isfinite(number) for number in astuple(self)):
            raise ValueError(f"Overlaps must be finite, got {self}.")
        smallest = np.linalg.eigvalsh(self.gram()).min()
        if smallest < -_ROUNDING * (1.0 + abs(self.q_key) + abs(self.q_value)):
            raise ValueError(
                f"No directions have these overlaps: {self}. Cauchy-Schwarz asks for m_key^2 <= q_key, "
                "m_value^2 <= q_value and, with the cross terms, for a positive semi-definite Gram matrix."
            )

    def gram(self):
        """Return the Gram matrix of (k*, v*, k, v) over D, a (4, 4) array."""
        return np.array(
            [
                [1.0, self.m_star, self.m_key, self.m_value_key],
                [self.m_star, 1.0, self.m_key_value, self.m_value],
                [self.m_key, self.m_key_value, self.q_key, self.q_key_value],
                [self.m_value_key, self.m_value, self.q_key_value, self.q_value],
            ]
        )


def order_parameters(estimator, dataset):
    """Measure the order parameters of a fitted estimator, and k*.v*/D of its data.

    Parameters
    ----------
    estimator : object with attributes `key_` and `value_`
        A fitted attention regressor, or any other model of this kind.
    dataset : object with attributes `key_` and `value_`
        The `SLRDataset` that it was fitted to.

    Returns
    -------
    Overlaps

    Raises
    ------
    ValueError
        If the estimator is not fitted, or the two differ in the number of features.
    """
    directions = []
    for name, holder in (("estimator", estimator), ("dataset", dataset)):
        for attribute in ("key_", "value_"):
            if not hasattr(holder, attribute):
                raise ValueError(
                    f"{name} has no attribute {attribute!r}: pass a fitted attention regressor and the "
                    "SLRDataset that it was fitted to."
                )
            directions.append(np.asarray(to_numpy(getattr(holder, attribute)), dtype=float))
    k, v, k_star, v_star = directions
    D = k_star.shape[0]
    if k.shape[0] != D:
        raise ValueError(f"The estimator has {k.shape[0]} features, the dataset {D}.")
    return Overlaps(
        m_key=float(k @ k_star) / D,
        m_value=float(v @ v_star) / D,
        q_key=float(k @ k) / D,
        q_value=float(v @ v) / D,
        m_key_value=float(k @ v_star) / D,
        m_value_key=float(v @ k_star) / D,
        q_key_value=float(k @ v) / D,
        m_star=float(k_star @ v_star) / D,
    )
