// The score as a sum: a bar per term from where the last one ended, drawn in SVG with classes instead of styles.

import { decimalText } from "../core/decimal.js";
import { extent, signed } from "../core/evidence.js";
import { html } from "../dom.js";
import { Sized } from "./sized.js";

const WIDE = { row: 26, left: 284, right: 76, bar: 4, words: 17 };
const NARROW = { row: 40, left: 6, right: 6, bar: 20, words: 14 };
const NARROW_BELOW = 560;

export const Hatches = () => html`<svg width="0" height="0" class="defs" aria-hidden="true" focusable="false"><defs>
  <pattern id="against-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" class="hatch-ground" /><line x1="0" y1="0" x2="0" y2="6" class="hatch-line" /></pattern>
  <pattern id="unknown-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" class="hatch-ground" /><line x1="0" y1="0" x2="0" y2="6" class="unknown-line" /></pattern>
</defs></svg>`;

const shorten = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/** On a phone the words stand above their bar instead of beside it. */
export const Waterfall = (props) => html`<${Sized} draw=${(width) => html`<${Bars} ...${props} width=${width} />`} />`;

function Bars({ fall, words, totalWords, width }) {
  const narrow = width < NARROW_BELOW;
  const place = narrow ? NARROW : WIDE;
  const [least, most] = extent([...fall.rows, { from: 0, to: fall.total }]);
  const scale = (value) => place.left + ((value - least) / (most - least || 1)) * (width - place.left - place.right);
  const height = (fall.rows.length + 1) * place.row + 20;
  const total = { key: "total", from: 0, to: fall.total, value: fall.total, total: true };
  const own = { place, scale, width, narrow, last: fall.rows.length };
  return html`<svg viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${`Waterfall of ${fall.rows.length} terms to ${signed(fall.total)}; the table below has the same numbers`}>
    <line x1=${scale(0)} x2=${scale(0)} y1="0" y2=${height - 18} class="axis" />
    <text x=${scale(0)} y=${height - 4} text-anchor="middle" class="svg-muted">0</text>
    ${[...fall.rows, total].map((row, at) => html`<${Bar} key=${row.key} row=${row} at=${at} words=${row.total ? totalWords : words(row)} ...${own} />`)}
  </svg>`;
}

function Bar({ row, at, words, place, scale, width, narrow, last }) {
  const top = at * place.row;
  const [from, to] = [scale(row.from), scale(row.to)];
  const kind = row.total ? "bar-total" : row.value < 0 ? "bar-against" : "bar-for";
  const value = `${row.total ? "=" : row.value < 0 ? "▽" : "▲"} ${signed(row.value)}`;
  const letters = narrow ? Math.floor(width / 7.5) - 10 : 38;
  return html`<g>
    <text x=${narrow ? 2 : place.left - 8} y=${top + place.words} text-anchor=${narrow ? "start" : "end"} class=${row.total ? "strong" : ""}>${shorten(words, letters)}<title>${words}</title></text>
    <rect x=${Math.min(from, to)} y=${top + place.bar} width=${Math.max(1.5, Math.abs(to - from))} height=${narrow ? 16 : place.row - 9} class=${kind}><title>${words}: ${signed(row.value, 5)}</title></rect>
    ${at < last && !narrow && html`<line x1=${to} x2=${to} y1=${top + place.row - 5} y2=${top + place.row + place.bar} class="step" />`}
    <text x=${width - 2} y=${top + place.words} text-anchor="end" class="number ${row.total ? "strong" : ""}">${value}</text></g>`;
}

/** What the page got by its own addition, against what was published. */
export function SumLine({ sum, terms }) {
  if (sum === null) return html`<p class="sum" data-adds="no" role="alert">Cannot be added up: a term is not a number.</p>`;
  const adds = sum.difference === 0n;
  const text = `${terms} = ${decimalText(sum.exact)}; published ${decimalText(sum.total)}; difference ${decimalText(sum.difference, adds ? 5 : 9)}`;
  return html`<p class="sum" data-adds=${adds ? "yes" : "no"} role=${adds ? undefined : "alert"}>
    ${adds ? "✓ Added up by this page: " : "✕ Does not add up! "}${text}</p>`;
}
