// Samples of a channel, split by how they came to be: measured, filled, late, implausible, missing. Pure.

const blank = (length) => new Array(length).fill(null);

/**
 * One array per kind, null elsewhere, so that each is drawn in its own way. A filled stretch begins and ends at its
 * measured neighbours, so that the dotted line joins the solid one. Late samples stay in the line and get a mark.
 */
export function layers(trace) {
  const { values, filled = [], marks = [] } = trace;
  const split = { measured: [...values], filled: blank(values.length), late: blank(values.length), implausible: blank(values.length) };
  for (const { kind, start, stop } of marks) {
    for (let step = Math.max(0, start); step < Math.min(stop, values.length); step++) {
      if (kind === "late") split.late[step] = values[step];
      if (kind === "implausible") [split.implausible[step], split.measured[step]] = [values[step], null];
    }
  }
  filled.slice(0, values.length).forEach((value, step) => {
    if (value === null) return;
    split.filled[step] = value;
    for (const next of [step - 1, step + 1]) {
      const missing = filled[next] === null || filled[next] === undefined;
      if (missing && next >= 0 && next < values.length) split.filled[next] = split.measured[next];
    }
  });
  return split;
}

/** How many steps of each kind the trace has. */
export function tally(trace) {
  const split = layers(trace);
  const count = (list) => list.filter((value) => value !== null && value !== undefined).length;
  const filled = (trace.filled ?? []).filter((value) => value !== null).length;
  const seen = count(trace.values);
  return { measured: count(split.measured), filled, late: count(split.late), implausible: count(split.implausible), missing: Math.max(0, trace.values.length - seen - filled) };
}

/** Value against a normal band: {direction: above|below|within, by}, `by` in the channel's unit; null without both. */
export function against(value, normal) {
  if (typeof value !== "number" || !normal) return null;
  if (value > normal.high) return { direction: "above", by: value - normal.high };
  if (value < normal.low) return { direction: "below", by: normal.low - value };
  return { direction: "within", by: 0 };
}

/** Appends or replaces the steps of a stream message; keeps the last `keep` steps. A jump of the grid gives null. */
export function appendSamples(signals, message, keep) {
  const offset = Math.round((message.start_ms - signals.start_ms) / signals.period_ms);
  const length = message.values[0]?.length ?? 0;
  if (offset < 0 || offset > signals.steps + keep || message.values.length !== signals.channels.length) return null;
  const steps = Math.max(signals.steps, offset + length);
  const cut = Math.max(0, steps - keep);
  const channels = signals.channels.map((trace, place) => extendTrace(trace, message.values[place], message.late[place] ?? [], { offset, steps, cut }));
  const window = signals.window && signals.window.map((step) => step - cut);
  return { ...signals, start_ms: signals.start_ms + cut * signals.period_ms, steps: steps - cut, window, channels };
}

/** The signals with the newest steps of the old ones: what the stream brought while they were asked for is kept. */
export function withNewer(signals, old, keep) {
  if (!signals || !old || old.period_ms !== signals.period_ms) return signals;
  const first = Math.round((signals.start_ms - old.start_ms) / signals.period_ms) + signals.steps;
  if (first < 0 || first >= old.steps) return signals;
  const message = { start_ms: old.start_ms + first * old.period_ms, values: old.channels.map((trace) => trace.values.slice(first)), late: [] };
  return appendSamples(signals, message, keep) ?? signals;
}

/** How long before the newest step the last value was measured, in milliseconds; NaN without any. */
export function silentFor(trace, periodMs) {
  const last = trace.values.findLastIndex((value) => value !== null);
  return last < 0 ? NaN : (trace.values.length - 1 - last) * periodMs;
}

function extendTrace(trace, fresh, late, { offset, steps, cut }) {
  const grow = (list) => [...list, ...blank(steps - list.length)];
  const values = grow(trace.values);
  const filled = trace.filled.length ? grow(trace.filled) : [];
  fresh.forEach((value, step) => {
    values[offset + step] = value;
    if (value !== null && filled.length) filled[offset + step] = null;
  });
  const wasLate = (step) => trace.marks.some((mark) => mark.kind === "late" && mark.start <= step && step < mark.stop);
  const newly = late.map((step) => offset + step).filter((step) => !wasLate(step));
  const marks = [...trace.marks, ...newly.map((step) => ({ kind: "late", start: step, stop: step + 1, detail: "" }))]
    .map((mark) => ({ ...mark, start: Math.max(0, mark.start - cut), stop: mark.stop - cut })).filter((mark) => mark.stop > mark.start);
  const now = fresh.reduce((last, value) => (value === null ? last : value), trace.now);
  return { ...trace, values: values.slice(cut), filled: filled.slice(cut), marks, now, direction: against(now, trace.normal)?.direction ?? null };
}

/**
 * Sweep, as on a bedside monitor: the axis stands, the pen moves and erases a little ahead of itself. Returns for each
 * step its place in [0, steps) and which steps the pen has erased.
 */
export function sweepOrder(startMs, periodMs, steps, gapSteps) {
  const first = Math.round(startMs / periodMs);
  const pen = (first + steps) % steps;
  const order = Array.from({ length: steps }, (_, place) => (place - pen + steps) % steps);
  return { order, pen, erased: (place) => (place - pen + steps) % steps < gapSteps };
}
