"""Builds LLVM instructions on vectors of sixteen numbers, which numba's own optimiser does not find.

The results are the same on every processor, because only table look-ups are done differently from one to another.
The exception are products that may be fused with an addition (`contract`): they differ by rounding.
"""

from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]  # it has no types
from numba.core import cgutils, config

LANES = 16
"""Numbers per vector and entries per table; output arrays need as many spare entries after their last output."""
INT, LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
INTS, FLOATS = ir.VectorType(INT, LANES), ir.VectorType(_FLOAT, LANES)
_HALF = LANES // 2


class VectorBuilder:
    """Wraps llvmlite's builder; arrays are given as pointers to their first element."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.int_zeros = ir.Constant(INTS, [0] * LANES)
        self.float_zeros = ir.Constant(FLOATS, [0.0] * LANES)

    def load_ints(self, array: Any, index: Any) -> Any:
        return self.load(array, index, INTS)

    def load_floats(self, array: Any, index: Any) -> Any:
        return self.load(array, index, FLOATS)

    def load(self, array: Any, index: Any, kind: Any) -> Any:
        loaded = self.builder.load(self._pointer(array, index, kind))
        loaded.align = 4
        return loaded

    def store(self, vector: Any, array: Any, index: Any) -> None:
        self.builder.store(vector, self._pointer(array, index, vector.type)).align = 4

    def add_to_floats(self, array: Any, index: Any, amount: Any) -> None:
        total = self.builder.fadd(self.load_floats(array, index), amount)
        self.store(total, array, index)

    def add_to_ints(self, array: Any, index: Any, amount: Any) -> None:
        total = self.builder.add(self.load_ints(array, index), amount)
        self.store(total, array, index)

    def broadcast(self, value: Any) -> Any:
        """The value in every lane."""
        kind = ir.VectorType(value.type, LANES)
        undefined = ir.Constant(kind, ir.Undefined)
        return self.builder.shuffle_vector(
            self.builder.insert_element(undefined, value, INT(0)), undefined, self.int_zeros
        )

    def lanes_below(self, count: Any) -> Any:
        """Mask of the lanes whose number is below `count`, a 64-bit integer."""
        numbers = ir.Constant(INTS, list(range(LANES)))
        return self.builder.icmp_signed("<", numbers, self.broadcast(self.builder.trunc(count, INT)))

    def sum_ints(self, vector: Any) -> Any:
        """Over the lanes."""
        kind = ir.FunctionType(INT, [INTS])
        name = f"llvm.vector.reduce.add.v{LANES}i32"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [vector])

    def sum_doubles(self, vector: Any) -> Any:
        """Over the lanes, in the order that is fastest."""
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), vector.type])
        name = f"llvm.vector.reduce.fadd.v{LANES}f64"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [ir.DoubleType()(0.0), vector], fastmath=("reassoc",))

    def count_lanes(self, mask: Any) -> Any:
        """How many lanes of the mask are set."""
        return self.builder.zext(self.builder.ctpop(self.builder.bitcast(mask, ir.IntType(LANES))), INT)

    def call(self, name: str, *vectors: Any) -> Any:
        """LLVM's intrinsic of that name; its result has the type of its first argument."""
        kind = ir.FunctionType(vectors[0].type, [vector.type for vector in vectors])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), list(vectors))

    def look_up(self, table: Any, index: Any) -> Any:
        """table[index] in every lane; both are vectors."""
        features = _processor_features()
        if "+avx512f" in features:
            return self._look_up_avx512(table, index)
        return self._look_up_avx2(table, index) if "+avx2" in features else self._look_up_by_lane(table, index)

    def _look_up_avx512(self, table: Any, index: Any) -> Any:
        return self.call("llvm.x86.avx512.permvar.sf.512", table, index)

    def _look_up_avx2(self, table: Any, index: Any) -> Any:
        """Eight lanes at a time, in both halves of the table."""
        halves = []
        for start in (0, _HALF):
            places = self._half(index, start)
            low, high = (self.call("llvm.x86.avx2.permps", self._half(table, at), places) for at in (0, _HALF))
            in_high = self.builder.icmp_signed(">=", places, ir.Constant(places.type, [_HALF] * _HALF))
            halves.append(self.builder.select(in_high, high, low))
        return self.builder.shuffle_vector(*halves, ir.Constant(INTS, list(range(LANES))))

    def _look_up_by_lane(self, table: Any, index: Any) -> Any:
        found = ir.Constant(FLOATS, ir.Undefined)
        for lane in range(LANES):
            entry = self.builder.extract_element(table, self.builder.extract_element(index, INT(lane)))
            found = self.builder.insert_element(found, entry, INT(lane))
        return found

    def _half(self, vector: Any, start: int) -> Any:
        numbers = ir.Constant(ir.VectorType(INT, _HALF), list(range(start, start + _HALF)))
        return self.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), numbers)

    def _pointer(self, array: Any, index: Any, kind: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(array, [index]), kind.as_pointer())


def _processor_features() -> str:
    """As numba sees them: NUMBA_CPU_FEATURES may restrict them."""
    return str(binding.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES)


def data_pointers(context: Any, builder: Any, kind: Any, arrays: Any) -> list[Any]:
    """Pointers to the first elements of a tuple of arrays."""
    parts = [builder.extract_value(arrays, index) for index in range(len(kind.types))]
    return [context.make_array(each)(context, builder, part).data for each, part in zip(kind.types, parts, strict=True)]


def tuple_items(builder: Any, kind: Any, values: Any) -> list[Any]:
    """The items of a tuple of numbers."""
    return [builder.extract_value(values, index) for index in range(len(kind))]
