// The states of an asset as bars of fixed height: never squeezed, with words where they fit; a bar leads to its moment.

import { duration, moment } from "../core/times.js";
import { formatRoute } from "../core/route.js";
import { html } from "../dom.js";
import { Sized } from "./sized.js";

const ROW = 24;
const SEEN_APART = 4;

const kindOf = (run, isNormal) => (run.state === "unknown" ? "unknown" : isNormal(run.state) ? "normal" : "abnormal");

/** `alarms`: [{rule, priority, raisedMs}] that stand now; they get a row of their own. */
export const Timeline = (props) => html`<div><${Sized} draw=${(width) => html`<${Rows} ...${props} width=${width} />`} /><${RunTable} ...${props} /></div>`;

function Rows({ timeline, isNormal, now, utc, at, alarms, width }) {
  const [start, end] = [timeline.start_ms, Math.max(timeline.end_ms, timeline.start_ms + 1)];
  const x = (time) => Math.min(width, Math.max(0, ((time - start) / (end - start)) * width));
  const below = ROW * (alarms.length ? 2 : 1);
  return html`<svg viewBox=${`0 0 ${width} ${below + 34}`} width=${width} height=${below + 34} role="group" aria-label=${`States from ${moment(start, now, { utc })} to ${moment(end, now, { utc })}; the table below has the same`}>
    <rect x="0.5" y="0.5" width=${width - 1} height=${ROW - 1} class="run-gap" />
    ${timeline.runs.map((run) => {
      const [left, size] = [x(run.start_ms), Math.max(1.5, x(run.end_ms) - x(run.start_ms))];
      const kind = kindOf(run, isNormal);
      const inside = size > 8 * run.state.length + 10;
      return html`<g key=${run.start_ms}><rect x=${left} y="0" width=${size > SEEN_APART ? size - 1 : size} height=${ROW} class=${`${run.mixed > 1 ? "run-mixed" : `run-${kind}`}`} onClick=${() => { location.hash = formatRoute({ view: "asset", id: timeline.asset, query: { at: new Date(run.end_ms).toISOString() } }); }}><title>${run.state}, ${duration(run.end_ms - run.start_ms)} from ${moment(run.start_ms, now, { utc })}</title></rect>
        ${inside && kind === "unknown" && html`<rect x=${left + 3} y="4" width=${8 * run.state.length} height=${ROW - 8} class="hatch-ground" pointer-events="none" />`}
        ${inside && html`<text x=${left + 5} y="16" class=${`run-text-${kind}`} pointer-events="none">${run.state}</text>`}</g>`;
    })}
    ${alarms.map((alarm) => html`<g key=${alarm.rule}><rect x=${x(alarm.raisedMs)} y=${ROW + 3} width=${Math.max(3, width - x(alarm.raisedMs))} height=${ROW - 5} class=${`alarm-bar alarm-${alarm.priority}`} /><${AlarmWords} alarm=${alarm} left=${x(alarm.raisedMs)} width=${width} /></g>`)}
    ${timeline.marks.map((mark) => html`<text key=${mark.id} x=${x(mark.time_ms)} y=${below + 13} text-anchor="middle" class="mark">◆<title>${mark.type}: ${mark.text}</title></text>`)}
    ${Number.isFinite(at) && html`<line x1=${x(at)} x2=${x(at)} y1="0" y2=${below + 8} class="at" />`}
    <text x="0" y=${below + 30} class="svg-muted">${moment(start, now, { utc })}</text>
    <text x=${width} y=${below + 30} text-anchor="end" class="svg-muted">${moment(end, now, { utc })}</text>
  </svg>`;
}

/** In its bar, else before it: white words beside a short red bar could not be read. */
function AlarmWords({ alarm, left, width }) {
  const inside = width - left > 8 * alarm.rule.length + 10;
  return html`<text x=${inside ? left + 5 : left - 5} y=${ROW + 17} text-anchor=${inside ? "start" : "end"} class=${inside ? `on-${alarm.priority}` : ""}>${alarm.rule}</text>`;
}

function RunTable({ timeline, now, utc }) {
  return html`<details><summary>States as a table</summary><table><thead><tr><th scope="col">from</th><th scope="col">state</th><th scope="col" class="number">lasted</th></tr></thead><tbody>
    ${timeline.runs.slice(-25).reverse().map((run) => html`<tr key=${run.start_ms}><td><a href=${formatRoute({ view: "asset", id: timeline.asset, query: { at: new Date(run.end_ms).toISOString() } })}>${moment(run.start_ms, now, { utc })}</a></td><td>${run.state}${run.mixed > 1 ? ` (and others, ${run.mixed} runs)` : ""}</td><td class="number">${duration(run.end_ms - run.start_ms)}</td></tr>`)}
    </tbody></table></details>`;
}
