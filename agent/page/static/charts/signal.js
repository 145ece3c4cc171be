// One channel over time: TRAIN's band, the window, the evidence spans, and samples drawn by how they came to be.

import { tickTexts, valueText } from "../core/evidence.js";
import { layers, sweepOrder } from "../core/samples.js";
import { clock } from "../core/times.js";
import { Component, announce, html, token, watchColours } from "../dom.js";

const HEIGHT = 110;
const SWEEP_GAP = 12;
const AXIS = 64;

/** Data for uPlot: times in seconds, and one line per kind of sample. In sweep mode the axis stands still. */
export function plotData(signals, trace, sweeping) {
  const split = layers(trace);
  const times = trace.values.map((_, step) => (signals.start_ms + step * signals.period_ms) / 1000);
  const lines = [split.measured, split.filled, split.late, split.implausible];
  if (!sweeping || times.length < 2 * SWEEP_GAP) return [times, ...lines];
  const { order, erased } = sweepOrder(signals.start_ms, signals.period_ms, times.length, SWEEP_GAP);
  return [times, ...lines.map((line) => order.map((step, place) => (erased(place) ? null : line[step])))];
}

/** All that is drawn must be inside: values, and the normal band as long as it does not flatten them. */
export function valueRange(trace, low, high) {
  const bounds = [low, high, trace.normal?.low, trace.normal?.high].filter((value) => typeof value === "number" && Number.isFinite(value));
  if (!bounds.length) return [0, 1];
  const [least, most] = [Math.min(...bounds), Math.max(...bounds)];
  const margin = (most - least || Math.abs(most) || 1) * 0.08;
  return [least - margin, most + margin];
}

/** The same for all channels, so that times stand above each other, unless a number would be cut off on its left. */
const axisWidth = (_, texts) => Math.max(AXIS, 15 + 7 * Math.max(0, ...(texts ?? []).map((text) => String(text ?? "").length)));

export class SignalChart extends Component {
  componentDidMount() {
    this.make();
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.box);
    this.forget = watchColours(() => { this.plot.destroy(); this.make(); });
  }

  componentDidUpdate(before) {
    if (before.signals !== this.props.signals || before.trace !== this.props.trace || before.sweeping !== this.props.sweeping) {
      this.plot.setData(plotData(this.props.signals, this.props.trace, this.props.sweeping));
    } else if (before.spans !== this.props.spans || before.utc !== this.props.utc) this.plot.redraw(false, true);
  }

  componentWillUnmount() {
    this.observer.disconnect();
    this.forget();
    this.plot.destroy();
  }

  resize() {
    const width = Math.floor(this.box.clientWidth);
    if (width > 40 && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  make() {
    const { signals, trace, sweeping } = this.props;
    this.plot = new globalThis.uPlot(this.options(), plotData(signals, trace, sweeping), this.box);
  }

  options() {
    const [signal, muted, grid, bad] = ["--signal", "--muted", "--grid", "--bad"].map(token);
    const axis = { stroke: muted, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid }, font: '11px system-ui, "DejaVu Sans", sans-serif' };
    return {
      width: Math.max(200, Math.floor(this.box.clientWidth)), height: HEIGHT, legend: { show: false }, padding: [6, 8, 0, 0],
      cursor: { sync: { key: "channels" }, drag: { x: false, y: false }, points: { show: false } },
      scales: { x: { time: true }, y: { range: (_, low, high) => valueRange(this.props.trace, low, high) } },
      axes: [
        { ...axis, size: 26, space: 90, values: (_, ticks) => ticks.map((tick) => (this.props.sweeping ? "" : clock(tick * 1000, { utc: this.props.utc }))) },
        { ...axis, size: axisWidth, space: 18, values: (_, ticks) => tickTexts(ticks) },
      ],
      series: [
        {},
        { stroke: signal, width: 1.4, points: { show: false }, spanGaps: false },
        { stroke: signal, width: 1.4, dash: [2, 4], points: { show: false }, spanGaps: false },
        { stroke: muted, width: 0, paths: () => null, points: { show: true, size: 7, width: 1.5, fill: token("--panel") } },
        { stroke: bad, width: 0, paths: () => null, points: { show: false } },
      ],
      hooks: {
        drawClear: [(plot) => this.drawBehind(plot)],
        draw: [(plot) => { this.drawImplausible(plot, bad); this.drawMissing(plot, muted); }],
        setCursor: [(plot) => this.read(plot.cursor.idx)],
      },
    };
  }

  /** The value under the cursor, as text: the mouse or the arrow keys move it, in all channels at once. */
  read(step) {
    const { trace, signals, utc } = this.props;
    const seen = step !== null && step !== undefined && step < trace.values.length;
    this.readout.textContent = seen ? this.words(trace, signals, step, utc) : "";
  }

  words(trace, signals, step, utc) {
    const kinds = trace.marks.filter((mark) => mark.start <= step && step < mark.stop).map((mark) => mark.kind);
    const time = clock(signals.start_ms + step * signals.period_ms, { utc, tenths: true });
    return `${time}: ${valueText(trace.values[step] ?? trace.filled[step] ?? null, trace.unit)}${kinds.length ? ` (${kinds.join(", ")})` : ""}`;
  }

  move(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || this.props.sweeping) return;
    event.preventDefault();
    const last = this.props.trace.values.length - 1;
    this.step = Math.min(last, Math.max(0, (this.step ?? last + 1) + steps[event.key]));
    this.plot.setCursor({ left: this.plot.valToPos(this.plot.data[0][this.step], "x"), top: 10 });
    announce(`${this.props.trace.name} ${this.words(this.props.trace, this.props.signals, this.step, this.props.utc)}`);
  }

  drawBehind(plot) {
    const { trace, spans, signals, sweeping } = this.props;
    const { left, top, width, height } = plot.bbox;
    const pen = plot.ctx;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width, height);
    pen.clip();
    if (trace.normal) {
      const [high, low] = [trace.normal.high, trace.normal.low].map((value) => plot.valToPos(value, "y", true));
      pen.fillStyle = token("--band");
      pen.fillRect(left, high, width, low - high);
      pen.strokeStyle = token("--band-line");
      pen.lineWidth = 1;
      pen.setLineDash([]);
      for (const y of [high, low]) { pen.beginPath(); pen.moveTo(left, y); pen.lineTo(left + width, y); pen.stroke(); }
    }
    if (!sweeping) {
      this.drawWindow(plot, signals);
      for (const span of spans) this.drawSpan(plot, span);
    }
    pen.restore();
  }

  drawWindow(plot, signals) {
    if (!signals.window) return;
    const [from, to] = signals.window.map((step) => plot.valToPos((signals.start_ms + step * signals.period_ms) / 1000, "x", true));
    plot.ctx.strokeStyle = token("--strong-line");
    plot.ctx.lineWidth = 1;
    plot.ctx.setLineDash([6, 4]);
    plot.ctx.strokeRect(from, plot.bbox.top + 1, to - from, plot.bbox.height - 2);
  }

  /** Strong where the channel carries the span, a bare edge at the bottom where another channel does. */
  drawSpan(plot, { startMs, endMs, value, strength, own }) {
    const pen = plot.ctx;
    const [from, to] = [startMs, endMs].map((time) => plot.valToPos(time / 1000, "x", true));
    const colour = token(value < 0 ? "--against" : "--for");
    const { top, height } = plot.bbox;
    pen.setLineDash(value < 0 ? [5, 4] : []);
    pen.strokeStyle = pen.fillStyle = colour;
    if (!own) {
      pen.globalAlpha = 0.45;
      pen.fillRect(from, top + height - 3, to - from, 3);
      pen.globalAlpha = 1;
      return;
    }
    pen.globalAlpha = 0.1 + 0.22 * strength;
    pen.fillRect(from, top, to - from, height);
    pen.globalAlpha = 1;
    pen.lineWidth = 1 + 2 * strength;
    pen.strokeRect(from + 1, top + 1, Math.max(1, to - from - 2), height - 2);
    pen.font = `${12 * devicePixelRatio}px system-ui, "DejaVu Sans", sans-serif`;
    pen.fillText(value < 0 ? "▽" : "▲", from + 4, top + 14 * devicePixelRatio);
  }

  /** A cross: it cannot be a measurement. */
  drawImplausible(plot, colour) {
    const pen = plot.ctx;
    pen.save();
    [pen.strokeStyle, pen.lineWidth] = [colour, 2];
    plot.data[4].forEach((value, place) => {
      if (value === null || value === undefined) return;
      const y = Math.min(plot.bbox.top + plot.bbox.height - 5, Math.max(plot.bbox.top + 5, plot.valToPos(value, "y", true)));
      const x = plot.valToPos(plot.data[0][place], "x", true);
      pen.beginPath();
      pen.moveTo(x - 4, y - 4); pen.lineTo(x + 4, y + 4); pen.moveTo(x - 4, y + 4); pen.lineTo(x + 4, y - 4);
      pen.stroke();
    });
    pen.restore();
  }

  /** A thick line at the bottom where nothing came: a gap alone is easily overlooked. */
  drawMissing(plot, colour) {
    if (this.props.sweeping) return;
    const { signals, trace } = this.props;
    plot.ctx.save();
    plot.ctx.fillStyle = colour;
    for (const { kind, start, stop } of trace.marks) {
      if (kind !== "missing" && kind !== "filled") continue;
      const [from, to] = [start, stop].map((step) => plot.valToPos((signals.start_ms + step * signals.period_ms) / 1000, "x", true));
      plot.ctx.fillRect(from, plot.bbox.top + plot.bbox.height - (kind === "missing" ? 6 : 2), Math.max(1, to - from), kind === "missing" ? 6 : 2);
    }
    plot.ctx.restore();
  }

  render({ label }) {
    return html`<div><div class="plot" role="figure" tabindex="0" aria-label=${`${label}. Arrow keys read the values.`} onKeyDown=${(event) => this.move(event)} ref=${(node) => { this.box = node ?? this.box; }}></div>
      <div class="readout" aria-hidden="true" ref=${(node) => { this.readout = node ?? this.readout; }}></div></div>`;
  }
}
