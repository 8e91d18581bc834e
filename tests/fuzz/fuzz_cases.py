"""What the fuzz tests draw: data in every form that users hold, models with every parameter, and what must hold."""

import collections
import functools
import pickle
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

import sklearn_attn
from sklearn_attn import RaggedArray

PACKAGE = str(Path(sklearn_attn.__file__).parent)
N_CASES = collections.Counter()
_COMMON = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("few", derandomize=True, **_COMMON)
settings.register_profile("many", derandomize=False, print_blob=True, **_COMMON)


def fuzz(*strategies, few, many):
    """Run a test on `few` cases by default and on `many` with `pytest -m fuzz`, and count them."""

    def decorate(test):
        @functools.wraps(test)
        def counted(case):
            N_CASES[test.__name__] += 1
            test(*case)

        del counted.__wrapped__  # pytest would read the names of its arguments there
        n = few if settings.default.derandomize else many
        return settings(max_examples=n)(given(case=st.tuples(*strategies))(counted))

    return decorate


# -- data --------------------------------------------------------------------------------------------------

FACTORS = [1e-300, 1e-200, 1e-160, 1e-140, 1e-60, 1e-20, 1e-8, 1e8, 1e20, 1e60, 1e140, 1e160, 1e200, 1e300]
factors = st.one_of(st.just(1.0), st.just(1.0), st.sampled_from(FACTORS))
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from(["f8"] * 6 + [">f8", "f4", "f4", ">f4", "f2", "i8", ">i4", "u1", "?"])
LAYOUTS = ["C", "C", "fortran", "transposed", "steps", "reversed", "read-only", "mapped", "unaligned"]
layouts = st.sampled_from(LAYOUTS)
FORMS = [
    "ragged",
    "list",
    "tuple",
    "objects",
    "column",
    "frame",
    "nested",
    "masked",
    "nan tail",
    "groups",
    "flat",
]


@st.composite
def lengths_of_sequences(draw, max_sequences=12):
    n = draw(st.integers(1, max_sequences))
    kind = draw(st.sampled_from(["ragged", "ragged", "ragged", "equal", "one token", "with a long one"]))
    if kind == "equal":
        return np.full(n, draw(st.integers(1, 6)))
    if kind == "one token":
        return np.ones(n, dtype=int)
    lengths = np.array(draw(st.lists(st.integers(1, 6), min_size=n, max_size=n)))
    if kind == "with a long one" and draw(st.integers(0, 9)) == 0:
        lengths[draw(st.integers(0, n - 1))] = draw(st.integers(7, 10_000))
    return lengths


@st.composite
def tokens(draw, n_tokens, scale, dtype):
    """Draw (n_tokens, D) values: ordinary ones, duplicated and constant features, far from zero, with ties."""
    D = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(seeds))
    kind = draw(st.sampled_from(["normal"] * 4 + ["ties", "zeros", "heavy", "far", "scales", "ones"]))
    values = rng.standard_normal((n_tokens, D))
    if kind == "ties":
        values = np.round(values)
    elif kind in ("zeros", "ones"):
        values = np.full((n_tokens, D), float(kind == "ones"))
    elif kind == "heavy":
        values = rng.standard_t(0.5, (n_tokens, D))
    elif kind == "far":
        values += 10.0 ** rng.integers(0, 9, D)
    elif kind == "scales":
        values *= 10.0 ** rng.integers(-12, 13, D)
    if draw(st.integers(0, 3)) == 0:
        values[:, -1] = draw(st.sampled_from([0.0, 1.0, 1e6, -0.1]))  # a constant feature
    if D > 1 and draw(st.integers(0, 3)) == 0:
        values[:, 1] = values[:, 0]
    with np.errstate(over="ignore"):
        values = np.nan_to_num(values * scale)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.clip(values, low / 2, high / 2).astype(dtype)
    if dtype.kind == "b":
        return values > 0
    top = float(np.finfo(dtype).max)
    return np.clip(values, -top, top).astype(dtype)


def lay_out(values, layout):
    """Hold the same numbers in memory in another way."""
    if layout == "fortran":
        return np.asfortranarray(values)
    if layout == "transposed":
        return values.T.copy().T
    if layout == "steps":
        wide = np.zeros((2 * values.shape[0], 3 * values.shape[1]), dtype=values.dtype)
        wide[::2, 1::3] = values
        return wide[::2, 1::3]
    if layout == "reversed":
        return values[::-1, ::-1].copy()[::-1, ::-1]
    if layout == "unaligned":
        room = np.empty(values.nbytes + 1, dtype=np.uint8)[1:]
        view = room.view(values.dtype).reshape(values.shape)
        view[...] = values
        return view
    if layout == "mapped":
        with tempfile.TemporaryFile() as file:
            file.write(values.tobytes())
            file.flush()
            return np.memmap(file, dtype=values.dtype, mode="r", shape=values.shape)
    if layout == "read-only":
        values = values.copy()
        values.flags.writeable = False
    return values


def take_form(values, offsets, form, layout):
    """Hand over the sequences in one of the forms that users hold; (X, arrays whose bytes must stay)."""
    lengths = np.diff(offsets)
    if form in ("ragged", "flat", "groups"):
        buffer = lay_out(values, layout)
        if form == "groups":
            return RaggedArray.from_groups(buffer, np.repeat(np.arange(lengths.size), lengths)), [buffer]
        X = (
            RaggedArray(buffer, offsets)
            if form == "ragged"
            else RaggedArray.from_flat(buffer, lengths=lengths)
        )
        return X, [buffer]
    if form in ("masked", "nan tail"):
        native = values.astype(values.dtype.newbyteorder("="))
        if form == "nan tail" and native.dtype.kind != "f":
            native = native.astype(float)
        padded, mask = RaggedArray(native, offsets).to_padded(
            fill_value=np.nan if native.dtype.kind == "f" else 0, return_mask=True
        )
        return RaggedArray.from_padded(padded, mask if form == "masked" else None), [padded]
    if form == "3-D":
        cube = values.reshape(lengths.size, -1, values.shape[1])
        return cube, [cube]
    if form == "2-D":
        table = lay_out(values, layout)
        return table, [table]
    if form == "named":
        frame = pd.DataFrame(
            values.astype(values.dtype.newbyteorder("=")), columns=[f"f{j}" for j in range(values.shape[1])]
        )
        return frame, [frame.to_numpy()]
    sequences = [lay_out(part, layout) for part in np.split(values, offsets[1:-1])]
    if form == "nested":
        return [part.tolist() for part in sequences], []
    if form in ("list", "tuple"):
        return (sequences if form == "list" else tuple(sequences)), sequences
    objects = np.empty(lengths.size, dtype=object)
    objects[:] = [*sequences] if lengths.size > 1 else [None]
    for i, part in enumerate(sequences):
        objects[i] = part
    X = {"objects": objects, "column": objects[:, None]}.get(form)
    return (pd.DataFrame({"sequence": objects}) if X is None else X), sequences


@dataclass
class Sequences:
    """Drawn sequences.

    Attributes
    ----------
    form : str
    X : in the form in which they are handed over
    values, offsets : ndarray
        Their tokens and where they begin.
    kept : list of ndarray
        Buffers whose bytes must not change.
    elsewhere : list of ndarray
        Other sequences with as many features, perhaps of another size.
    description : str
    """

    form: str
    X: object
    values: np.ndarray
    offsets: np.ndarray
    kept: list
    elsewhere: list
    description: str

    def __repr__(self):
        return self.description

    @property
    def n(self):
        return self.offsets.size - 1


@st.composite
def sequences(draw, scale=factors, max_sequences=12, dtype=dtypes):
    lengths = draw(lengths_of_sequences(max_sequences))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    scale, dtype, layout = draw(scale), draw(dtype), draw(layouts)
    values = draw(tokens(offsets[-1], scale, dtype))
    special = ["3-D"] * 2 * int(np.ptp(lengths) == 0) + ["2-D", "named"] * 2 * int(lengths.max() == 1)
    form = draw(st.sampled_from(FORMS + special))
    if lengths.sum() > 500 and form == "nested":
        form = "list"
    X, kept = take_form(values, offsets, form, layout)
    shape = f"lengths {lengths.tolist()}, D {values.shape[1]}"
    description = f"<{form}, {layout}, {dtype}, scale {scale:g}, {shape}, values {values[:3].tolist()}>"
    with np.errstate(over="ignore"):
        other = np.nan_to_num(values[:2].astype(float) * draw(factors))
    elsewhere = pd.DataFrame(other, columns=X.columns) if form == "named" else [other, 0.5 * other[:1]]
    return Sequences(form, X, values, offsets, kept, elsewhere, description)


@st.composite
def targets(draw, n, scale=factors):
    rng = np.random.default_rng(draw(seeds))
    kind = draw(st.sampled_from(["normal"] * 4 + ["constant", "zeros", "integers", "far", "outlier"]))
    y = rng.standard_normal(n)
    if kind == "constant":
        y = np.full(n, 0.1)
    elif kind == "zeros":
        y = np.zeros(n)
    elif kind == "integers":
        return np.round(3 * y).astype(draw(st.sampled_from(["i8", "i2"])))
    elif kind == "far":
        y += 10.0 ** rng.integers(1, 9)
    elif kind == "outlier":
        y[0] = 1e6
    y = y * draw(scale)
    kind = draw(st.sampled_from(["array", "array", "f4", ">f8", "list", "steps", "read-only"]))
    if kind == "f4":
        y = np.clip(y, -1e38, 1e38).astype("f4")
    elif kind == ">f8":
        y = y.astype(">f8")
    elif kind == "list":
        y = y.tolist()
    elif kind == "steps":
        y = np.repeat(y, 2)[::2]
    elif kind == "read-only":
        y.flags.writeable = False
    return y


@st.composite
def weights(draw, n, scale=factors):
    kind = draw(st.sampled_from(["none", "none", "random", "zeros", "integers", "one", "scalar"]))
    if kind == "none":
        return None
    rng = np.random.default_rng(draw(seeds))
    weight = rng.random(n)
    if kind == "zeros":
        weight *= rng.random(n) < 0.6
    elif kind == "integers":
        return rng.integers(0, 3, n)
    elif kind == "one":
        weight = (np.arange(n) == n - 1) * 1.0
    elif kind == "scalar":
        return draw(scale)
    return weight * draw(scale)


@st.composite
def labels(draw, n, n_classes):
    """Draw at least two classes for n sequences, as numbers, strings, booleans or objects."""
    codes = np.array(draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n)))
    kind = draw(st.sampled_from(["int", "str", "object", "float", "negative"] + ["bool"] * (n_classes == 2)))
    names = {
        "int": np.arange(n_classes), "str": np.array(["b", "a", "dd", "c"])[:n_classes],
        "object": np.array(["u", "w", "v", "x"], dtype=object)[:n_classes], "float": np.arange(n_classes) * 1.0,
        "negative": -7 * np.arange(n_classes), "bool": np.array([False, True]),
    }[kind]  # fmt: skip
    return names[codes]


# -- what must hold ------------------------------------------------------------------------------------------


def bytes_of(arrays):
    return [np.asarray(array).tobytes() for array in arrays if array is not None]


def outcome(function, *arguments, unconverged=None, **keywords):
    """Call; return the result, or None where the package refuses with a message of its own.

    Any warning but that of a fit that has not converged, or whose features are far from zero, is an error.
    The former go to the list `unconverged`.
    """
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("error")
            warnings.simplefilter("always", ConvergenceWarning)
            warnings.simplefilter("ignore", UndefinedMetricWarning)  # R2 of one sequence
            warnings.filterwarnings("ignore", message=r".* vary by less than a thousandth of their mean")
            result = function(*arguments, **keywords)
        if unconverged is not None:
            unconverged += caught
        return result
    except ValueError as error:
        raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
        if not raised_in.startswith(PACKAGE):
            raise
        return None


def assert_finite(**results):
    for name, result in results.items():
        array = np.asarray(getattr(result, "values", result))
        assert np.isfinite(array).all(), f"{name} is not finite: {array.ravel()[:5]}"


def reloaded(model):
    return pickle.loads(pickle.dumps(model))
