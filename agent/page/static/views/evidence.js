// Level 4: why. The score as a sum that the page adds up itself, where it lies, who added it, and why not the runner-up.

import { ChannelMap, runsOfRow } from "../charts/channel_map.js";
import { Shape } from "../charts/shape.js";
import { Hatches, SumLine, Waterfall } from "../charts/waterfall.js";
import { logitOf, mapCells, percent, signed, sums, sureText, timesText, waterfall } from "../core/evidence.js";
import { clock, ms } from "../core/times.js";
import { html } from "../dom.js";
import { choose, state } from "../store.js";
import { Classes } from "./asset.js";
import { Advice, adviceFor } from "./advice.js";
import { Verdict } from "./verdict.js";
import { AssetLink, EventLink, Sentence, StateWord, When } from "./words.js";

export function EvidenceView() {
  const event = state.event?.head.id === state.route.id ? state.event : null;
  if (!event) return html`<div class="panel"><h1>Evidence</h1><p>${state.problem || state.viewProblem ? html`This event cannot be shown. <a href="#/fleet">To the fleet</a>` : "Reading the event …"}</p></div>`;
  const { data } = event;
  return html`<${Hatches} /><${Headline} event=${event} />
    ${!event.readable && html`<p class="refused" role="alert">This page cannot read the event: ${event.problem}. Below it is as published.</p>`}
    ${event.readable && data.evidence && html`<${Score} event=${event} /><${EvidenceMap} data=${data} /><${WhyNot} data=${data} /><${Experts} data=${data} />`}
    ${event.readable && !data.evidence && html`<p class="panel">No evidence was published with this event${data.abstention ? `: ${data.abstention.replaceAll("_", " ")}` : ""}.</p>`}
    <${Facts} event=${event} />`;
}

function Headline({ event }) {
  const { head, data } = event;
  const abstains = head.state === "unknown" && data.evidence;
  return html`<div class="panel"><div class="head"><h1>${head.state ?? head.type}</h1><span>at <${AssetLink} id=${head.asset} /></span><span>window until <${When} at=${head.time_ms} tenths /></span>
      <span class="end links">${event.previous && html`<${EventLink} id=${event.previous}>← state before<//>`}${event.next && html`<${EventLink} id=${event.next}>state after →<//>`}
        <a href=${`#/asset/${encodeURIComponent(head.asset)}?at=${encodeURIComponent(new Date(head.time_ms).toISOString())}`}>the signals then</a></span></div>
    <p class="sentence"><${Sentence} text=${data.text ?? head.text} /></p>
    <${Advice} found=${adviceFor(head.group, head.state)} />
    ${abstains && html`<p>Would have said <${StateWord} name=${data.evidence.class} kind="abnormal" />, and did not because: <strong>${String(data.abstention).replaceAll("_", " ")}</strong>.</p>`}
    <${Verdict} id=${head.id} judged=${Boolean(data.evidence)} /></div>`;
}

const TENTHS_BELOW_MS = 10_000;

export function rowWords(row) {
  if (row.kind === "context") return "context (no place in time)";
  if (row.kind === "remainder") return "all other spans together";
  const { span } = row;
  const tenths = ms(span.end) - ms(span.start) < TENTHS_BELOW_MS;
  const times = [span.start, span.end].map((time) => clock(ms(time), { utc: state.choices.utc, tenths }));
  return `${span.channels.join(" + ")} ${times[0]}–${times[1]}`;
}

function Score({ event }) {
  const { data } = event;
  const logit = logitOf(data) ?? event.sum?.published ?? null;
  const fall = waterfall(data.evidence, logit, state.choices.order);
  const both = sums(data.evidence, logit);
  const row = data.classes?.find((one) => one.class === data.evidence.class);
  return html`<section class="panel"><div class="head"><h2>The score of ${data.evidence.class} as a sum</h2>
      <span class="end"><button type="button" aria-pressed=${state.choices.order === "size" ? "true" : "false"} onClick=${() => choose("order", state.choices.order === "size" ? "time" : "size")}>Largest first</button></span></div>
    <${Waterfall} fall=${fall} words=${rowWords} totalWords=${`score of ${data.evidence.class}`} />
    <${SumLine} sum=${fall.sum} terms="context + spans + remainder" />
    ${data.evidence.channels.length > 0 && html`<${SumLine} sum=${both.channels} terms="context + channels + other channels" />`}
    ${row && html`<p>Probability of ${row.class}: <strong>${sureText(row.probability)}</strong>, by softmax of the scores of all classes. The scale above is the score, not the probability.</p>`}
    <details><summary>The sum as a table</summary><table><thead><tr><th scope="col">term</th><th scope="col">expert</th><th scope="col" class="number">adds</th></tr></thead><tbody>
      ${fall.rows.map((one) => html`<tr key=${one.key}><td>${rowWords(one)}</td><td>${one.span?.expert ?? ""}</td><td class="number">${signed(one.value, 5)}</td></tr>`)}
      <tr><th scope="row">score of ${data.evidence.class}</th><td></td><td class="number">${signed(logit, 5)}</td></tr></tbody></table></details>
    <${Classes} event=${data} /></section>`;
}

function EvidenceMap({ data }) {
  const fine = state.rebuilt?.event === state.route.id ? state.rebuilt.map : null;
  const rows = fine ? fineRows(fine) : publishedRows(data);
  if (!rows.length) return null;
  return html`<section class="panel"><h2>Where it lies: time × channel</h2>
    <${ChannelMap} rows=${rows} startMs=${ms(data.window.start)} endMs=${ms(data.window.end)} utc=${state.choices.utc} />
    <p class="muted">▲ filled: speaks for ${data.evidence.class}. ▽ hatched: against. ${fine ? "All evidence, step by step, from the window judged again." : "The published spans."}</p></section>`;
}

function fineRows(map) {
  const strongest = Math.max(1e-12, ...map.values.flatMap((row) => row.map(Math.abs)));
  return map.rows.map((names, place) => ({ name: names.join(" + "), cells: runsOfRow(map.values[place], strongest) })).filter((row) => row.cells.length);
}

function publishedRows(data) {
  const names = [...new Set(data.evidence.spans.flatMap((span) => span.channels))];
  const cells = mapCells(data, names).map((cell) => ({ ...cell, outlined: true }));
  return names.map((name, row) => ({ name, cells: cells.filter((cell) => cell.row === row) }));
}

function WhyNot({ data }) {
  const rival = data.why_not;
  if (!rival) return null;
  const fall = waterfall(rival, rival.margin, state.choices.order);
  return html`<section class="panel" id="why-not"><h2>Why not ${rival.class}?</h2>
    <p class="sentence">By these scores ${data.evidence.class} is ${timesText(rival.margin)} as likely as ${rival.class}.</p>
    <${Waterfall} fall=${fall} words=${rowWords} totalWords=${`${data.evidence.class} − ${rival.class}`} />
    <${SumLine} sum=${fall.sum} terms="context + spans + remainder" /></section>`;
}

const SHOWN_PROTOTYPES = 5;

function Experts({ data }) {
  const rebuilt = state.rebuilt?.event === state.route.id ? state.rebuilt : null;
  const experts = rebuilt?.experts?.length ? rebuilt.experts : data.evidence.experts ?? [];
  const similar = (rebuilt?.score?.spans ?? []).filter((span) => span.similar).slice(0, 3);
  return html`<div class="columns"><section class="panel"><h2>Who added it: experts</h2><table class="stack"><thead><tr><th scope="col">expert</th><th scope="col" class="number">adds</th><th scope="col" class="number">reliability</th><th scope="col">knows</th></tr></thead><tbody>
      ${experts.map((one, at) => html`<tr key=${one.name}><th scope="row">${one.name}</th><td class="number" data-label="adds">${signed(one.contribution)}</td><td class="number" data-label="reliability">${one.reliability === null || one.reliability === undefined ? "–" : percent(one.reliability)}</td>
        <td>${one.shape ?? ""}<div class="shapes">${(at < SHOWN_PROTOTYPES ? one.prototypes ?? [] : []).map((shape, place) => html`<${Shape} key=${place} values=${shape.values} label=${`prototype in ${shape.channel}, class ${shape.class}`} caption=${`${shape.channel}, ${shape.class}`} />`)}</div></td></tr>`)}</tbody></table>${rebuilt && experts.length > SHOWN_PROTOTYPES && html`<p class="muted">Prototypes: segments of TRAIN on which the expert spoke loudest, of the ${SHOWN_PROTOTYPES} that added most.</p>`}</section>
    <section class="panel"><h2>What it resembles in the training data</h2>
      ${!similar.length && html`<p class="muted">${rebuilt ? "No similar segment: the bundle has no expert profiles, or the window could not be judged again." : "Looking …"}</p>`}
      ${similar.map((span, place) => html`<div key=${place}><h3>${span.channel} (${signed(span.contribution)})</h3><${Shape} values=${span.similar.values} over=${windowPart(rebuilt, span)} label=${`most similar segment of TRAIN, class ${span.similar.class}`}
        caption=${`solid: this window; dotted: a segment of ${span.similar.class}${span.similar.recording ? ` in ${span.similar.recording}` : ""}, distance ${span.similar.distance.toFixed(2)}`} wide /></div>`)}</section></div>`;
}

function windowPart(rebuilt, span) {
  const trace = rebuilt.signals?.channels.find((one) => one.name === span.channel);
  return trace ? trace.values.slice(span.start, span.stop) : [];
}

function Facts({ event }) {
  const { data } = event;
  return html`<section class="panel"><h2>Facts</h2><dl class="facts">
    <dt>event</dt><dd><code>${event.head.id}</code></dd>
    ${data.window && html`<dt>window</dt><dd>${data.window.start} – ${data.window.end}, ${percent(data.window.coverage)} observed${data.window.missing_channels?.length ? `, missing: ${data.window.missing_channels.join(", ")}` : ""}</dd>`}
    ${data.model && html`<dt>model</dt><dd><a href=${`#/models?group=${encodeURIComponent(data.group)}`}>${data.model.name} ${data.model.version}</a> <code>${String(data.model.digest).slice(0, 12)}</code></dd>`}
    ${data.input && html`<dt>input</dt><dd>${data.input.topic}[${data.input.partition}] offset ${data.input.offset}</dd>`}
    ${event.sum && html`<dt>the server's sum</dt><dd>${event.sum.exact ? "adds up" : `differs by ${event.sum.difference}`}</dd>`}</dl>
    <details><summary>As published (JSON)</summary><pre tabindex="0">${JSON.stringify(data, null, 1)}</pre></details></section>`;
}
