// Changes of state per minute over a day: brush a period to see what was odd in it. Buttons beside it do the same.

import { clock } from "../core/times.js";
import { Component, html } from "../dom.js";
import { Sized } from "./sized.js";

const HEIGHT = 44;
const MINUTE_MS = 60_000;
const LEAST_MINUTES = 60;

export class Strip extends Component {
  constructor() { super(); this.state = { from: null, to: null }; }

  time(event, width) {
    const box = event.currentTarget.getBoundingClientRect();
    const [start, end] = this.range();
    return start + Math.min(1, Math.max(0, (event.clientX - box.left) / width)) * (end - start);
  }

  range() {
    const { trend } = this.props;
    return [trend.end_ms - Math.max(LEAST_MINUTES, trend.per_minute.length) * MINUTE_MS, trend.end_ms];
  }

  finish() {
    const { from, to } = this.state;
    if (from !== null && Math.abs(to - from) > MINUTE_MS / 2) this.props.choose(Math.round(Math.min(from, to)), Math.round(Math.max(from, to)));
    this.setState({ from: null, to: null });
  }

  render(props) {
    return html`<${Sized} draw=${(width) => this.draw(props, width)} />`;
  }

  draw({ trend, chosen, utc }, width) {
    const [start, end] = this.range();
    const x = (time) => ((time - start) / (end - start)) * width;
    const highest = Math.max(1, ...trend.per_minute);
    const first = end - trend.per_minute.length * MINUTE_MS;
    const { from, to } = this.state;
    const brush = from !== null ? [Math.min(from, to), Math.max(from, to)] : chosen;
    return html`<svg class="strip" viewBox=${`0 0 ${width} ${HEIGHT + 18}`} width=${width} height=${HEIGHT + 18} role="img" aria-label=${`Changes of state per minute from ${clock(start, { utc })} to ${clock(end, { utc })}, at most ${highest} in a minute. The buttons below choose a period.`}
        onPointerDown=${(event) => { event.currentTarget.setPointerCapture?.(event.pointerId); const at = this.time(event, width); this.setState({ from: at, to: at }); }}
        onPointerMove=${(event) => { if (this.state.from !== null) this.setState({ to: this.time(event, width) }); }}
        onPointerUp=${() => this.finish()} onPointerCancel=${() => this.setState({ from: null, to: null })}>
      <rect x="0" y="0" width=${width} height=${HEIGHT} class="strip-ground" />
      ${trend.per_minute.map((count, place) => count > 0 && html`<rect key=${place} x=${x(first + place * MINUTE_MS)} y=${HEIGHT - (count / highest) * (HEIGHT - 4)} width=${Math.max(1, x(start + MINUTE_MS) - 0.5)} height=${(count / highest) * (HEIGHT - 4)} class="bar-flat" />`)}
      ${brush && html`<rect x=${x(brush[0])} y="0.5" width=${Math.max(2, x(brush[1]) - x(brush[0]))} height=${HEIGHT - 1} class="brush" />`}
      <text x="0" y=${HEIGHT + 14} class="svg-muted">${clock(start, { utc })}</text><text x=${width} y=${HEIGHT + 14} text-anchor="end" class="svg-muted">${clock(end, { utc })}</text></svg>`;
  }
}
