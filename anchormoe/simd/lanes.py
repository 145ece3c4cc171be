"""Sixteen numbers at a time, by vector instructions that numba's own optimiser does not find.

What is written here gives the same numbers on every processor: only how table entries are picked differs. Products that
allow fusing (`contract`) are the exception, within rounding.
"""

from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]  # it has no types
from numba.core import cgutils, config

LANES = 16
"""Outputs at a time, and entries of a table; arrays of outputs are this much longer than their outputs."""
INT, LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
INTS, FLOATS = ir.VectorType(INT, LANES), ir.VectorType(_FLOAT, LANES)
_HALF = LANES // 2


class Lanes:
    """Builds instructions on vectors of LANES numbers; arrays are given as pointers to their first element."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.zeros = ir.Constant(INTS, [0] * LANES)
        self.no_evidence = ir.Constant(FLOATS, [0.0] * LANES)

    def ints(self, array: Any, index: Any) -> Any:
        return self.load(array, index, INTS)

    def floats(self, array: Any, index: Any) -> Any:
        return self.load(array, index, FLOATS)

    def ints_where(self, chosen: Any, array: Any, index: Any) -> Any:
        """0 in the other lanes, whose memory is not touched."""
        place = self._pointer(array, index, INTS)
        kind = ir.FunctionType(INTS, [place.type, INT, chosen.type, INTS])
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.masked.load.v{LANES}i32.p0")
        return self.builder.call(function, [place, INT(4), chosen, self.zeros])

    def load(self, array: Any, index: Any, kind: Any) -> Any:
        loaded = self.builder.load(self._pointer(array, index, kind))
        loaded.align = 4
        return loaded

    def store(self, vector: Any, array: Any, index: Any) -> None:
        self.builder.store(vector, self._pointer(array, index, vector.type)).align = 4

    def same(self, value: Any) -> Any:
        """The value in every lane."""
        kind = ir.VectorType(value.type, LANES)
        undefined = ir.Constant(kind, ir.Undefined)
        return self.builder.shuffle_vector(self.builder.insert_element(undefined, value, INT(0)), undefined, self.zeros)

    def first(self, count: Any) -> Any:
        """Which lanes are below `count`, a long."""
        numbers = ir.Constant(INTS, list(range(LANES)))
        return self.builder.icmp_signed("<", numbers, self.same(self.builder.trunc(count, INT)))

    def add_floats(self, array: Any, index: Any, amount: Any) -> None:
        total = self.builder.fadd(self.floats(array, index), amount)
        self.store(total, array, index)

    def add_ints(self, array: Any, index: Any, amount: Any) -> None:
        total = self.builder.add(self.ints(array, index), amount)
        self.store(total, array, index)

    def total(self, vector: Any) -> Any:
        """The sum of the lanes, of integers."""
        kind = ir.FunctionType(INT, [INTS])
        name = f"llvm.vector.reduce.add.v{LANES}i32"
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [vector])

    def total_of_doubles(self, vector: Any) -> Any:
        """The sum of the lanes, in any order that suits."""
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), vector.type])
        name = f"llvm.vector.reduce.fadd.v{LANES}f64"
        function = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, [ir.DoubleType()(0.0), vector], fastmath=("reassoc",))

    def call(self, name: str, *vectors: Any) -> Any:
        """An instruction that gives what it is given, by its name."""
        kind = ir.FunctionType(vectors[0].type, [vector.type for vector in vectors])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), list(vectors))

    def count(self, chosen: Any) -> Any:
        """How many lanes were chosen."""
        return self.builder.zext(self.builder.ctpop(self.builder.bitcast(chosen, ir.IntType(LANES))), INT)

    def pick(self, table: Any, index: Any) -> Any:
        """table[index] in every lane; both are vectors."""
        features = _processor_features()
        if "+avx512f" in features:
            return self._pick_at_once(table, index)
        return self._pick_by_halves(table, index) if "+avx2" in features else self._pick_one_by_one(table, index)

    def _pick_at_once(self, table: Any, index: Any) -> Any:
        return self.call("llvm.x86.avx512.permvar.sf.512", table, index)

    def _pick_by_halves(self, table: Any, index: Any) -> Any:
        halves = []
        for start in (0, _HALF):
            own = self._half(index, start)
            low, high = (self.call("llvm.x86.avx2.permps", self._half(table, at), own) for at in (0, _HALF))
            above = self.builder.icmp_signed(">=", own, ir.Constant(own.type, [_HALF] * _HALF))
            halves.append(self.builder.select(above, high, low))
        return self.builder.shuffle_vector(*halves, ir.Constant(INTS, list(range(LANES))))

    def _pick_one_by_one(self, table: Any, index: Any) -> Any:
        picked = ir.Constant(FLOATS, ir.Undefined)
        for lane in range(LANES):
            entry = self.builder.extract_element(table, self.builder.extract_element(index, INT(lane)))
            picked = self.builder.insert_element(picked, entry, INT(lane))
        return picked

    def _half(self, vector: Any, start: int) -> Any:
        numbers = ir.Constant(ir.VectorType(INT, _HALF), list(range(start, start + _HALF)))
        return self.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), numbers)

    def _pointer(self, array: Any, index: Any, kind: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(array, [index]), kind.as_pointer())


def _processor_features() -> str:
    """As numba sees them: NUMBA_CPU_FEATURES may narrow them."""
    return str(binding.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES)


def pointers(context: Any, builder: Any, kind: Any, arrays: Any) -> list[Any]:
    """The data of a tuple of arrays."""
    parts = [builder.extract_value(arrays, index) for index in range(len(kind.types))]
    return [context.make_array(own)(context, builder, part).data for own, part in zip(kind.types, parts, strict=True)]
