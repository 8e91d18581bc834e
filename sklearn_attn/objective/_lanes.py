"""Vectors of float64 in compiled code, as wide as a register of the machine.

The compiler turns simple loops into vector instructions by itself, but neither as wide as it could nor
with tokens fetched ahead of their use. A pass over X is written in these vectors instead:

    for j in range(0, D, LANES):
        x = load(X, (row, j), D - j)
        total_a = multiply_add(x, load(a, j, D - j), total_a)
"""

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, models, register_model

_FEATURES = numba.config.CPU_FEATURES
# Numbers of a vector.
LANES = 8 if "+avx512f" in (get_host_cpu_features() if _FEATURES is None else _FEATURES) else 4

_DOUBLE, _INT = ir.DoubleType(), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_INTS = ir.VectorType(_INT, LANES)


class Lanes(types.Type):
    """The type of a vector."""

    def __init__(self):
        super().__init__(name=f"Lanes({LANES})")


_TYPE = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, type_):
        super().__init__(manager, type_, _VECTOR)


def pointer_to(context, builder, array_type, array, index, target=None):
    """Point to array[index], as a `target` if it is of another type."""
    view = context.make_array(array_type)(context, builder, array)
    indices = cgutils.unpack_tuple(builder, index) if array_type.ndim == 2 else [index]
    address = cgutils.get_item_pointer(context, builder, array_type, view, indices)
    return address if target is None else builder.bitcast(address, target.as_pointer())


def _index_type(array):
    return types.UniTuple(types.intp, 2) if array.ndim == 2 else types.intp


def _repeat(builder, number, vector_type):
    first = builder.insert_element(ir.Constant(vector_type, ir.Undefined), number, _INT(0))
    return builder.shuffle_vector(first, first, ir.Constant(_INTS, [0] * LANES))


def _first(builder, n):
    """Mark the first n lanes, all of them if n is larger."""
    few = builder.select(builder.icmp_signed("<", n, n.type(LANES)), n, n.type(LANES))
    counts = _repeat(builder, builder.trunc(few, _INT), _INTS)
    return builder.icmp_signed("<", ir.Constant(_INTS, list(range(LANES))), counts)


def _call(builder, name, returned, *arguments, **options):
    function_type = ir.FunctionType(returned, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    return builder.call(function, arguments, **options)


@intrinsic
def load(typing_context, array, index, n):
    """Load the first n lanes, at most all, from array[index] on; the others are 0, and not read."""

    def codegen(context, builder, signature, arguments):
        number, name, size = (_DOUBLE, "f64", 8)
        if array.dtype == types.float32:
            number, name, size = (ir.FloatType(), "f32", 4)
        vector = ir.VectorType(number, LANES)
        address = pointer_to(context, builder, array, *arguments[:2], vector)
        zeros = ir.Constant(vector, [0.0] * LANES)
        numbers = _call(
            builder, f"llvm.masked.load.v{LANES}{name}.p0", vector, address, _INT(size),
            _first(builder, arguments[2]), zeros,
        )  # fmt: skip
        return numbers if number is _DOUBLE else builder.fpext(numbers, _VECTOR)

    return _TYPE(array, _index_type(array), types.intp), codegen


@intrinsic
def store(typing_context, array, index, n, numbers):
    """Store the first n lanes, at most all, in the float64 array from array[index] on."""

    def codegen(context, builder, signature, arguments):
        address = pointer_to(context, builder, array, *arguments[:2], _VECTOR)
        _call(
            builder, f"llvm.masked.store.v{LANES}f64.p0", ir.VoidType(), arguments[3], address, _INT(8),
            _first(builder, arguments[2]),
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(array, _index_type(array), types.intp, _TYPE), codegen


@intrinsic
def prefetch(typing_context, array, index):
    """Ask for the cache line of array[index]; it need not exist."""

    def codegen(context, builder, signature, arguments):
        address = pointer_to(context, builder, array, *arguments, ir.IntType(8))
        read, into_l2, data = _INT(0), _INT(2), _INT(1)
        _call(builder, "llvm.prefetch.p0", ir.VoidType(), address, read, into_l2, data)
        return context.get_dummy_value()

    return types.void(array, _index_type(array)), codegen


@intrinsic
def fill(typing_context, number):
    """Return a vector whose lanes are all the same number."""

    def codegen(context, builder, signature, arguments):
        return _repeat(builder, arguments[0], _VECTOR)

    return _TYPE(types.float64), codegen


@intrinsic
def subtract(typing_context, a, b):
    """Return a - b."""

    def codegen(context, builder, signature, arguments):
        return builder.fsub(*arguments)

    return _TYPE(_TYPE, _TYPE), codegen


@intrinsic
def multiply(typing_context, a, b):
    """Return a b."""

    def codegen(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return _TYPE(_TYPE, _TYPE), codegen


@intrinsic
def multiply_add(typing_context, a, b, c):
    """Return a b + c, rounded once where the machine can."""

    def codegen(context, builder, signature, arguments):
        product = builder.fmul(arguments[0], arguments[1], flags=["contract"])
        return builder.fadd(product, arguments[2], flags=["contract"])

    return _TYPE(_TYPE, _TYPE, _TYPE), codegen


@intrinsic
def total(typing_context, numbers):
    """Return the sum of all lanes."""

    def codegen(context, builder, signature, arguments):
        name = f"llvm.vector.reduce.fadd.v{LANES}f64"
        return _call(builder, name, _DOUBLE, _DOUBLE(-0.0), arguments[0], fastmath=["reassoc"])

    return types.float64(_TYPE), codegen
