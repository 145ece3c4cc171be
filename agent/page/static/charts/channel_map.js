// Time × channel: where in the window, and in which channel, the evidence lies.

import { signed } from "../core/evidence.js";
import { clock } from "../core/times.js";
import { html } from "../dom.js";
import { Sized } from "./sized.js";

const ROW = 30;

/** `rows`: [{name, cells: [{left, right, value, strength}]}], left and right as shares of the window. */
export const ChannelMap = (props) => html`<${Sized} draw=${(width) => html`<${Cells} ...${props} width=${width} />`} />`;

function Cells({ rows, startMs, endMs, utc, width }) {
  const left = width < 560 ? 84 : 150;
  const letters = Math.floor(left / 7.4);
  const x = (share) => left + share * (width - left - 4);
  const height = rows.length * ROW + 24;
  return html`<svg viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label="Map of the evidence by time and channel; the waterfall's table has the spans">
    ${rows.map((row, place) => html`<g key=${row.name}>
      <text x=${left - 8} y=${place * ROW + 19} text-anchor="end">${row.name.length > letters ? row.name.slice(0, letters - 1) + "…" : row.name}<title>${row.name}</title></text>
      <line x1=${left} x2=${width - 4} y1=${place * ROW + ROW - 1} y2=${place * ROW + ROW - 1} class="gridline" />
      ${row.cells.map((cell, index) => html`<rect key=${index} x=${x(cell.left)} y=${place * ROW + 3} width=${Math.max(1.5, x(cell.right) - x(cell.left))} height=${ROW - 7}
        class=${cell.value < 0 ? "bar-against" : "bar-for"} fill-opacity=${0.15 + 0.75 * cell.strength} stroke-opacity=${cell.outlined ? 1 : 0}><title>${row.name}: ${signed(cell.value, 3)}</title></rect>`)}
    </g>`)}
    <text x=${left} y=${height - 6} class="svg-muted">${clock(startMs, { utc, tenths: true })}</text>
    <text x=${width - 4} y=${height - 6} text-anchor="end" class="svg-muted">${clock(endMs, { utc, tenths: true })}</text>
  </svg>`;
}

/** Neighbouring steps of one sign become one cell, so that a row of 128 steps is a handful of shapes. Pure. */
export function runsOfRow(values, strongest) {
  const cells = [];
  values.forEach((value, step) => {
    const last = cells[cells.length - 1];
    const level = Math.round((8 * Math.abs(value)) / (strongest || 1));
    if (!level) return;
    if (last && last.stop === step && last.value < 0 === value < 0 && last.level === level) {
      last.stop = step + 1;
      last.value += value;
    } else cells.push({ start: step, stop: step + 1, value, level });
  });
  return cells.map((cell) => ({ left: cell.start / values.length, right: cell.stop / values.length, value: cell.value, strength: Math.min(1, cell.level / 8) }));
}
