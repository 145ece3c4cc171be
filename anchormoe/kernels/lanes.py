"""Sixteen outputs of a kernel at a time, by vector instructions that numba's own optimiser does not find.

The same numbers on every processor: what differs is only how sixteen table entries are picked.
"""

from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]  # it has no types
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

LANES = 16
"""Outputs at a time, and entries of a table; arrays of outputs are this much longer than their outputs."""
_INT, _LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_INTS, _FLOATS = ir.VectorType(_INT, LANES), ir.VectorType(_FLOAT, LANES)
_HALF = LANES // 2
_TAPS, _RIVALS = 9, 8


class Lanes:
    """Builds instructions on vectors of LANES numbers; arrays are given as pointers to their first element."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.zeros = ir.Constant(_INTS, [0] * LANES)
        self.no_evidence = ir.Constant(_FLOATS, [0.0] * LANES)

    def ints(self, array: Any, index: Any) -> Any:
        return self._load(array, index, _INTS)

    def floats(self, array: Any, index: Any) -> Any:
        return self._load(array, index, _FLOATS)

    def same(self, value: Any) -> Any:
        """The value in every lane."""
        kind = ir.VectorType(value.type, LANES)
        undefined = ir.Constant(kind, ir.Undefined)
        return self.builder.shuffle_vector(
            self.builder.insert_element(undefined, value, _INT(0)), undefined, self.zeros
        )

    def first(self, count: Any) -> Any:
        """Which lanes are below `count`, a long."""
        numbers = ir.Constant(_INTS, list(range(LANES)))
        return self.builder.icmp_signed("<", numbers, self.same(self.builder.trunc(count, _INT)))

    def add_floats(self, array: Any, index: Any, amount: Any) -> None:
        total = self.builder.fadd(self.floats(array, index), amount)
        self.builder.store(total, self._pointer(array, index, _FLOATS)).align = 4

    def add_ints(self, array: Any, index: Any, amount: Any) -> None:
        total = self.builder.add(self.ints(array, index), amount)
        self.builder.store(total, self._pointer(array, index, _INTS)).align = 4

    def count(self, chosen: Any) -> Any:
        """How many lanes were chosen."""
        return self.builder.zext(self.builder.ctpop(self.builder.bitcast(chosen, ir.IntType(LANES))), _INT)

    def pick(self, table: Any, index: Any) -> Any:
        """table[index] in every lane; both are vectors."""
        features = _processor_features()
        if "+avx512f" in features:
            return self._pick_at_once(table, index)
        return self._pick_by_halves(table, index) if "+avx2" in features else self._pick_one_by_one(table, index)

    def _pick_at_once(self, table: Any, index: Any) -> Any:
        return self._call("llvm.x86.avx512.permvar.sf.512", table, index)

    def _pick_by_halves(self, table: Any, index: Any) -> Any:
        halves = []
        for start in (0, _HALF):
            own = self._half(index, start)
            low, high = (self._call("llvm.x86.avx2.permps", self._half(table, at), own) for at in (0, _HALF))
            above = self.builder.icmp_signed(">=", own, ir.Constant(own.type, [_HALF] * _HALF))
            halves.append(self.builder.select(above, high, low))
        return self.builder.shuffle_vector(*halves, ir.Constant(_INTS, list(range(LANES))))

    def _pick_one_by_one(self, table: Any, index: Any) -> Any:
        picked = ir.Constant(_FLOATS, ir.Undefined)
        for lane in range(LANES):
            entry = self.builder.extract_element(table, self.builder.extract_element(index, _INT(lane)))
            picked = self.builder.insert_element(picked, entry, _INT(lane))
        return picked

    def _half(self, vector: Any, start: int) -> Any:
        numbers = ir.Constant(ir.VectorType(_INT, _HALF), list(range(start, start + _HALF)))
        return self.builder.shuffle_vector(vector, ir.Constant(vector.type, ir.Undefined), numbers)

    def _call(self, name: str, table: Any, index: Any) -> Any:
        kind = ir.FunctionType(table.type, [table.type, index.type])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), [table, index])

    def _load(self, array: Any, index: Any, kind: Any) -> Any:
        loaded = self.builder.load(self._pointer(array, index, kind))
        loaded.align = 4
        return loaded

    def _pointer(self, array: Any, index: Any, kind: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(array, [index]), kind.as_pointer())


def _processor_features() -> str:
    """As numba sees them: NUMBA_CPU_FEATURES may narrow them."""
    return str(binding.get_host_cpu_features().flatten() if config.CPU_FEATURES is None else config.CPU_FEATURES)


def pointers(context: Any, builder: Any, kind: Any, arrays: Any) -> list[Any]:
    """The data of a tuple of arrays."""
    parts = [builder.extract_value(arrays, index) for index in range(len(kind.types))]
    return [context.make_array(own)(context, builder, part).data for own, part in zip(kind.types, parts, strict=True)]


def _pool_shares(typing_context: Any, arrays: Any, places: Any) -> Any:
    """For t in [first, last) where counts[t] is not 0: v = 3 × (series[a+t] + series[b+t] + series[c+t]) - every[t].

    hits[hit + i] += how many v exceed biases[bias + i], for i < n ≤ 15; evidence[y × stride + t] +=
    table[cell + 16 y + how many of the n biases v exceeds], for y < Y. The caller keeps within bounds.
    arrays = series, every, counts, biases, hits, table, evidence, all flat; places = a, b, c, first, last, bias, n,
    hit, cell, Y, stride.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(builder)
        series, every, counts, *rest = pointers(context, builder, signature.args[0], arguments[0])
        a, b, c, first, last, *places = (builder.extract_value(arguments[1], i) for i in range(len(signature.args[1])))
        bins = cgutils.alloca_once(builder, _INTS)
        with cgutils.for_range_slice(builder, first, last, _LONG(LANES), _LONG) as (t, _):
            taps = [lanes.ints(series, builder.add(tap, t)) for tap in (a, b, c)]
            tripled = builder.mul(lanes.same(_INT(3)), builder.add(builder.add(taps[0], taps[1]), taps[2]))
            value = builder.sub(tripled, lanes.ints(every, t))
            there = builder.icmp_signed("!=", lanes.ints(counts, t), lanes.zeros)
            live = builder.and_(lanes.first(builder.sub(last, t)), there)
            _count_above(lanes, value, live, bins, rest, places)
            _add_looked_up(lanes, live, t, bins, rest, places)
        return context.get_dummy_value()

    return types.none(arrays, places), generate


def _count_above(lanes: Lanes, value: Any, live: Any, bins: Any, arrays: Any, places: Any) -> None:
    builder, (biases, hits, _, _), (bias, n, hit, _, _, _) = lanes.builder, arrays, places
    builder.store(lanes.zeros, bins)
    with cgutils.for_range(builder, n) as loop:
        threshold = lanes.same(builder.load(builder.gep(biases, [builder.add(bias, loop.index)])))
        above = builder.and_(builder.icmp_signed(">", value, threshold), live)
        builder.store(builder.sub(builder.load(bins), builder.sext(above, _INTS)), bins)
        own = builder.gep(hits, [builder.add(hit, loop.index)])
        builder.store(builder.add(builder.load(own), lanes.count(above)), own)


def _add_looked_up(lanes: Lanes, live: Any, t: Any, bins: Any, arrays: Any, places: Any) -> None:
    builder, (_, _, table, evidence), (_, _, _, cell, classes, stride) = lanes.builder, arrays, places
    bins = builder.load(bins)
    with cgutils.for_range(builder, classes) as loop:
        row = lanes.floats(table, builder.add(cell, builder.mul(loop.index, _LONG(LANES))))
        amount = builder.select(live, lanes.pick(row, bins), lanes.no_evidence)
        lanes.add_floats(evidence, builder.add(builder.mul(loop.index, stride), t), amount)


pool_shares: Any = intrinsic(_pool_shares)


def _pool_rivals(typing_context: Any, arrays: Any, places: Any) -> Any:
    """For t in [first, last) where counts[t] is not 0: who of eight kernels of nine taps responds most, and who least.

    A response is Σ_tap weights[weight + 9 rival + tap] × series[t + d × tap]; a tie goes to the first. sums[16 rival +
    any lane] += the response where it is the largest, counted[rival] += 1 where it is the smallest, evidence[y ×
    stride + t] += table[16 y + largest] × its response + table[16 y + 8 + smallest]. The caller keeps within bounds.
    arrays = series, weights, counts, sums, counted, table, evidence, all flat; places = d, first, last, weight, Y,
    stride. Responses are whole numbers below 2^24, so nothing is rounded before the evidence.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = Lanes(builder)
        series, weights, counts, *rest = pointers(context, builder, signature.args[0], arguments[0])
        d, first, last, weight, *places = (
            builder.extract_value(arguments[1], index) for index in range(len(signature.args[1]))
        )
        with cgutils.for_range_slice(builder, first, last, _LONG(LANES), _LONG) as (t, _):
            there = builder.icmp_signed("!=", lanes.ints(counts, t), lanes.zeros)
            live = builder.and_(lanes.first(builder.sub(last, t)), there)
            read = [lanes.floats(series, builder.add(t, builder.mul(d, _LONG(tap)))) for tap in range(_TAPS)]
            own = [builder.add(weight, _LONG(_TAPS * rival)) for rival in range(_RIVALS)]
            winners = _winners(lanes, [_response(lanes, read, weights, start) for start in own])
            _sum_winners(lanes, winners, live, rest)
            _add_rivals(lanes, winners, live, t, rest, places)
        return context.get_dummy_value()

    return types.none(arrays, places), generate


def _response(lanes: Lanes, read: list[Any], weights: Any, start: Any) -> Any:
    builder, total = lanes.builder, lanes.no_evidence
    for tap, values in enumerate(read):
        weight = lanes.same(builder.load(builder.gep(weights, [builder.add(start, _LONG(tap))])))
        total = builder.fadd(total, builder.fmul(weight, values, flags=("contract",)), flags=("contract",))
    return total


def _winners(lanes: Lanes, responses: list[Any]) -> tuple[Any, Any, Any]:
    """The largest response, whose it is, and whose the smallest is."""
    builder = lanes.builder
    most = least = responses[0]
    largest = smallest = lanes.zeros
    for rival, response in enumerate(responses[1:], start=1):
        number = ir.Constant(_INTS, [rival] * LANES)
        more, less = builder.fcmp_ordered(">", response, most), builder.fcmp_ordered("<", response, least)
        most, largest = builder.select(more, response, most), builder.select(more, number, largest)
        least, smallest = builder.select(less, response, least), builder.select(less, number, smallest)
    return most, largest, smallest


def _sum_winners(lanes: Lanes, winners: tuple[Any, Any, Any], live: Any, arrays: Any) -> None:
    builder, (most, largest, smallest), (sums, counted, _, _) = lanes.builder, winners, arrays
    amount = builder.fptosi(most, _INTS)
    for rival in range(_RIVALS):
        number = ir.Constant(_INTS, [rival] * LANES)
        wins = builder.and_(builder.icmp_signed("==", largest, number), live)
        lanes.add_ints(sums, _LONG(LANES * rival), builder.select(wins, amount, lanes.zeros))
        loses = builder.and_(builder.icmp_signed("==", smallest, number), live)
        own = builder.gep(counted, [_LONG(rival)])
        builder.store(builder.add(builder.load(own), lanes.count(loses)), own)


def _add_rivals(lanes: Lanes, winners: tuple[Any, Any, Any], live: Any, t: Any, arrays: Any, places: Any) -> None:
    builder, (most, largest, smallest), (_, _, table, evidence) = lanes.builder, winners, arrays
    classes, stride = places
    behind = builder.add(smallest, ir.Constant(_INTS, [_RIVALS] * LANES))
    with cgutils.for_range(builder, classes) as loop:
        row = lanes.floats(table, builder.mul(loop.index, _LONG(LANES)))
        amount = builder.fadd(builder.fmul(lanes.pick(row, largest), most), lanes.pick(row, behind))
        amount = builder.select(live, amount, lanes.no_evidence)
        lanes.add_floats(evidence, builder.add(builder.mul(loop.index, stride), t), amount)


pool_rivals: Any = intrinsic(_pool_rivals)
