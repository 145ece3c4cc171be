// Level 3: one asset. What it is, since when, how sure, why in words, what to do; then its signals with the evidence.

import { SignalChart } from "../charts/signal.js";
import { Timeline } from "../charts/timeline.js";
import { Hatches } from "../charts/waterfall.js";
import { shown } from "../core/alarms.js";
import { arrow, comparedTexts, directionText, signed, strongestFirst, sureText, valueText } from "../core/evidence.js";
import { against, silentFor, tally } from "../core/samples.js";
import { formatRoute } from "../core/route.js";
import { duration, ms } from "../core/times.js";
import { Component, html } from "../dom.js";
import { choose, plantNow, state } from "../store.js";
import { Advice, adviceFor } from "./advice.js";
import { Verdict } from "./verdict.js";
import { EventLink, Priority, Sentence, Since, StateWord, When, go } from "./words.js";

let spanCache = { evidence: null, byChannel: new Map() };

export function AssetView() {
  const asset = state.asset?.asset === state.route.id ? state.asset : null;
  if (!asset) return html`<div class="panel"><h1>${state.route.id || "No asset"}</h1><p>${state.problem || state.viewProblem ? "This asset cannot be shown." : "Reading the asset …"}</p><p><a href="#/fleet">To the fleet</a></p></div>`;
  const at = state.route.query.at;
  const held = at && state.held?.asset === asset.asset && state.held.at === at ? state.held : null;
  const past = held?.event && state.event?.head.id === held.event ? state.event : null;
  if (at && !past) return html`<div class="panel"><h1>${asset.asset}</h1><p>${!held || held.event ? "Reading that moment …" : html`No state of that moment is in the page's reach. <a href=${formatRoute({ view: "asset", id: asset.asset })}>The asset now</a>`}</p></div>`;
  const last = readable(past ?? asset.last);
  return html`<${Hatches} /><${Headline} asset=${asset} last=${last} past=${past} />
    <div class="columns"><${Why} last=${last} asset=${asset} /><${WhatToDo} asset=${asset} last=${last} past=${past} /></div>
    <${States} asset=${asset} />
    <${Signals} asset=${asset} signals=${past ? pastSignals(past) : asset.signals} last=${last} past=${past} />
    <${Recent} />`;
}

/** An event of another version may have anything under the names that this page reads; only its sentence is shown. */
const readable = (event) => (event && !event.readable ? { ...event, data: {} } : event);

const pastSignals = (past) => (state.rebuilt?.event === past.head.id ? state.rebuilt.signals : null);

function Headline({ asset, last, past }) {
  const name = past ? past.head.state : asset.state ?? "none yet";
  const kind = name === "unknown" || name === "none yet" ? "unknown" : isNormal(name) ? "normal" : "abnormal";
  const p = past ? past.head.p : asset.p;
  return html`<div class="panel"><div class="head"><h1>${asset.asset}</h1> <span class="muted">${asset.group.name}</span> <${StateWord} name=${name} kind=${kind} />
    ${past ? html`<span>window until <${When} at=${past.head.time_ms} tenths /></span>` : html`<span>since <${Since} at=${asset.since_ms ?? NaN} /></span>`}
    ${typeof p === "number" && kind !== "unknown" && html`<span>${sureText(p)} sure</span>`}
    ${last && html`<span class="end"><${EventLink} id=${last.head.id}>All the evidence<//></span>`}</div>
    ${last && html`<p class="sentence"><${Sentence} text=${last.data.text ?? last.head.text} /></p>`}
    ${past && html`<${Verdict} id=${past.head.id} judged=${Boolean(past.data.evidence)} />`}
    ${asset.missing_channels.length > 0 && html`<p class="refused">Missing channels: ${asset.missing_channels.join(", ")}</p>`}
    ${last?.data.window?.unsettled && html`<p class="muted">The last window alone says ${last.data.window.unsettled.state ?? "something else"}; it takes more windows to change the state.</p>`}</div>`;
}

const isNormal = (name) => Boolean(state.fleet?.normal[state.fleet.states.indexOf(name)]);

/** Value against normal, per channel of the evidence. */
function Why({ last }) {
  const channels = (last?.data.evidence?.channels ?? []).map((one) => ({ ...one, texts: comparedTexts(one) }));
  const start = ms(last?.data.window?.start);
  return html`<section class="panel"><h2>Why</h2>
    ${!channels.length && html`<p class="muted">${last ? "This event has no evidence: the model was not asked, or the event is of an older version." : "No event of this asset is in the page's reach."}</p>`}
    ${channels.length > 0 && html`<div class="scroll"><table class="stack"><thead><tr><th scope="col">channel</th><th scope="col" class="number">value in the span</th><th scope="col" class="number">normal</th><th scope="col">how</th><th scope="col" class="number">adds</th></tr></thead><tbody>
      ${channels.map((one) => html`<tr key=${one.name}><th scope="row">${one.name}</th><td class="number" data-label="value">${one.texts.value}</td>
        <td class="number" data-label="normal">${one.texts.normal}</td>
        <td>${arrow(one.direction)} ${directionText(one.direction)}${one.since ? html` since ${ms(one.since) <= start ? "at least " : ""}<${When} at=${ms(one.since)} />` : ""}</td>
        <td class="number" data-label="adds">${one.contribution === null ? "with others" : `${one.contribution < 0 ? "▽" : "▲"} ${signed(one.contribution)}`}</td></tr>`)}</tbody></table></div>
      <p class="muted">▲ speaks for ${last.data.evidence.class}, ▽ against it.</p>`}</section>`;
}

function WhatToDo({ asset, last, past }) {
  const known = state.alarms?.configured && state.alarms.link === "live";
  const own = known ? shown(state.alarms.alarms).filter((one) => one.asset === asset.asset) : [];
  return html`<section class="panel"><h2>What to do, and how sure</h2>
    ${own.map((alarm) => html`<div key=${alarm.alarm}><p><${Priority} priority=${alarm.priority} /> <a href=${`#/alarms/${encodeURIComponent(alarm.alarm)}`}>${alarm.rule}</a>, ${alarm.state}</p>
      ${alarm.rationale && html`<p><strong>${alarm.rationale.action}</strong></p><p class="muted">${alarm.rationale.cause} ${alarm.rationale.consequence}</p>`}</div>`)}
    ${!own.some((alarm) => alarm.rationale) && html`<${Advice} found=${adviceFor(asset.group.name, past ? past.head.state : asset.state)} />`}
    ${!own.length && html`<p class="muted">${noAlarm()}</p>`}
    <${Classes} event=${last?.data} />
    ${last && !past && html`<p class="muted">As of the event at <${When} at=${last.head.time_ms} />.</p>`}</section>`;
}

function noAlarm() {
  if (!state.alarms) return "Reading the alarms …";
  if (!state.alarms.configured) return "This plant has no alarm rules.";
  return state.alarms.link === "live" ? "No alarm for this asset." : `The alarms are not known: ${state.alarms.reason || "no connection"}.`;
}

export function Classes({ event }) {
  if (!event?.classes) return null;
  return html`<table><caption class="hidden-text">Classes</caption><thead><tr><th scope="col">class</th><th scope="col" class="number">probability</th><th scope="col" class="optional"><span class="hidden-text">as a bar</span></th><th scope="col" class="number">score</th></tr></thead><tbody>
    ${event.classes.map((row) => html`<tr key=${row.class}><th scope="row">${row.class}</th><td class="number">${sureText(row.probability)}</td><td class="optional"><span class="meter" aria-hidden="true"><span style=${{ width: `${100 * row.probability}%` }}></span></span></td><td class="number">${signed(row.logit)}</td></tr>`)}</tbody></table>`;
}

function States({ asset }) {
  if (!state.timeline || state.timeline.asset !== asset.asset) return null;
  const at = state.route.query.at ? ms(state.route.query.at) : NaN;
  return html`<section class="panel"><h2>States</h2><${Timeline} timeline=${state.timeline} isNormal=${isNormal} now=${plantNow()} utc=${state.choices.utc} at=${at} alarms=${standing(asset.asset)} />
    ${state.timeline.marks.length > 0 && html`<p class="muted">◆ technical events: see Events below.</p>`}<${GoTo} asset=${asset.asset} /></section>`;
}

function standing(asset) {
  const own = state.alarms?.configured && state.alarms.link === "live" ? shown(state.alarms.alarms) : [];
  return own.filter((one) => one.asset === asset).slice(0, 1).map((one) => ({ rule: one.rule, priority: one.priority, raisedMs: ms(one.raised) }));
}

/** Any moment of the page's reach; the field is in UTC, as the page's addresses are. */
function GoTo({ asset }) {
  const submit = (event) => {
    event.preventDefault();
    const at = Date.parse(`${new FormData(event.target).get("at")}Z`);
    if (Number.isFinite(at)) go({ view: "asset", id: asset, query: { at: new Date(at).toISOString() } });
  };
  return html`<form class="tools" onSubmit=${submit}><label>See the moment (UTC) <input id="moment" name="at" type="datetime-local" step="1" required defaultValue=${new Date(plantNow()).toISOString().slice(0, 19)} /></label><button type="submit">Go there</button></form>`;
}

/** Spans per channel; kept as long as the event is the same, so that charts are not drawn anew for nothing. */
function spansFor(evidence, channel) {
  if (spanCache.evidence !== evidence) spanCache = { evidence, byChannel: new Map() };
  if (!spanCache.byChannel.has(channel)) spanCache.byChannel.set(channel, makeSpans(evidence, channel));
  return spanCache.byChannel.get(channel);
}

function makeSpans(evidence, channel) {
  const spans = evidence?.spans ?? [];
  const strongest = Math.max(1e-12, ...spans.map((span) => Math.abs(span.contribution)));
  return spans.map((span) => ({
    startMs: ms(span.start), endMs: ms(span.end), value: span.contribution,
    strength: Math.abs(span.contribution) / strongest, own: span.channels.includes(channel),
  })).sort((one, other) => one.strength - other.strength);
}

const SILENT_AFTER_MS = 15_000;
const SILENT_WINDOWS = 2;

function Signals({ asset, signals, last, past }) {
  if (!signals) return html`<section class="panel"><h2>Signals</h2><p class="muted">${noSignals(asset, last, past)}</p>${last && !past && html`<p><a href=${momentOf(asset, last)}>See the signals of the window until <${When} at=${last.head.time_ms} /></a></p>`}</section>`;
  const endMs = signals.start_ms + (signals.steps - 1) * signals.period_ms;
  const age = plantNow() - endMs;
  const gone = !past && last?.data.window && ms(last.data.window.end) < signals.start_ms;
  return html`<section class="panel"><div class="head"><h2>Signals</h2><span class="muted">${!signals.channels.some((trace) => trace.normal) ? "" : signals.compared_with ? `normal: the class ${signals.compared_with} in the training data` : "normal: all of the training data"}</span>
      <span class="end"><button type="button" aria-pressed=${state.choices.sweep ? "true" : "false"} onClick=${() => choose("sweep", !state.choices.sweep)}>Sweep</button></span></div>
    <${SampleLegend} />
    ${!past && age > Math.max(SILENT_AFTER_MS, SILENT_WINDOWS * asset.group.window_ms) && html`<p class="refused" role="status">No sample of this asset for <strong>${duration(age)}</strong>: what is drawn ended at <${When} at=${endMs} />.</p>`}
    ${gone && html`<p>The evidence is from the window until <${When} at=${ms(last.data.window.end)} />, before what is drawn here. <a href=${momentOf(asset, last)}>See the signals of that window</a></p>`}
    <${Channels} signals=${signals} evidence=${last?.data.evidence} windowMs=${asset.group.window_ms} /></section>`;
}

const PHONE = matchMedia("(max-width: 40rem)");
const FIRST_ON_PHONE = 2;
const FIRST = 12;

/** Of many channels those that carry most of the evidence, on a phone two; the others when they are asked for. */
class Channels extends Component {
  constructor() { super(); this.state = { all: false }; }

  render({ signals, evidence, windowMs }, { all }) {
    const draw = (trace) => html`<${Channel} key=${trace.name} trace=${trace} signals=${signals} evidence=${evidence} windowMs=${windowMs} />`;
    const first = PHONE.matches ? FIRST_ON_PHONE : FIRST;
    if (signals.channels.length <= first) return signals.channels.map(draw);
    const byName = new Map(signals.channels.map((trace) => [trace.name, trace]));
    const order = strongestFirst([...byName.keys()], evidence);
    return html`${order.slice(0, all ? order.length : first).map((name) => draw(byName.get(name)))}
      <button type="button" aria-expanded=${all ? "true" : "false"} onClick=${() => this.setState({ all: !all })}>${all ? `Only the ${first} that matter most` : `All ${order.length} channels`}</button>`;
  }
}

const momentOf = (asset, last) => formatRoute({ view: "asset", id: asset.asset, query: { at: new Date(last.head.time_ms).toISOString() } });

function noSignals(asset, last, past) {
  if (!past) return asset.no_signals || "The page has no samples of this asset.";
  return state.rebuilt?.event === last.head.id ? `The window could not be rebuilt: ${state.rebuilt.reason || "no reason given"}.` : "Reading the window …";
}

/** A value that is older than a window is no present value, however large it is written. */
function Channel({ trace, signals, evidence, windowMs }) {
  const compared = against(trace.now, trace.normal);
  const found = tally(trace);
  const odd = ["filled", "late", "implausible", "missing"].filter((kind) => found[kind]).map((kind) => `${found[kind]} ${kind}`).join(", ");
  const silent = silentFor(trace, signals.period_ms);
  return html`<div class="channel"><div><div class="name">${trace.name}</div>
      <div class="now" data-direction=${compared?.direction}>${valueText(trace.now, trace.unit)}</div>
      ${silent > windowMs && html`<div><strong>last value, ${duration(silent)} old</strong></div>`}
      <div>${compared ? html`${arrow(compared.direction)} ${compared.by ? `${valueText(compared.by, trace.unit)} ` : ""}${directionText(compared.direction)}` : trace.normal ? "no value" : "normal not known"}</div>
      ${trace.normal && html`<div class="muted">${valueText(trace.normal.low)} … ${valueText(trace.normal.high, trace.unit)}</div>`}
      ${trace.description && html`<div class="muted">${trace.description}</div>`}
      ${odd && html`<div class="muted">${odd}</div>`}</div>
    <div><${SignalChart} trace=${trace} signals=${signals} spans=${spansFor(evidence, trace.name)} sweeping=${state.choices.sweep} utc=${state.choices.utc}
      label=${`${trace.name} over time, now ${valueText(trace.now, trace.unit)}, ${directionText(compared?.direction)}`} />
      <${SampleTable} trace=${trace} signals=${signals} /></div></div>`;
}

const PAGE = 25;

/** The samples for people who do not see the chart: 25 a page, newest first; nothing is made before it is opened. */
class SampleTable extends Component {
  constructor() { super(); this.state = { open: false, page: 0 }; }

  render({ trace, signals }, { open, page }) {
    const pages = Math.max(1, Math.ceil(signals.steps / PAGE));
    const stop = Math.max(0, signals.steps - Math.min(page, pages - 1) * PAGE);
    const steps = Array.from({ length: Math.min(PAGE, stop) }, (_, place) => stop - 1 - place);
    const kindAt = (step) => trace.marks.filter((mark) => mark.start <= step && step < mark.stop).map((mark) => [mark.kind, mark.detail].filter(Boolean).join(": ")).join(", ") || (trace.values[step] === null ? "missing" : "measured");
    return html`<details onToggle=${(event) => this.setState({ open: event.target.open })}><summary>${trace.name} as a table</summary>
      ${open && html`<div class="tools"><button type="button" disabled=${page === 0} onClick=${() => this.setState({ page: page - 1 })}>newer</button><button type="button" disabled=${page >= pages - 1} onClick=${() => this.setState({ page: page + 1 })}>older</button><span class="muted">page ${page + 1} of ${pages}</span></div>
      <table><caption>${trace.name}, newest first</caption><thead><tr><th scope="col">time</th><th scope="col" class="number">value</th><th scope="col">kind</th></tr></thead><tbody>
      ${steps.map((step) => html`<tr key=${step}><td><${When} at=${signals.start_ms + step * signals.period_ms} tenths /></td><td class="number">${valueText(trace.values[step] ?? trace.filled[step] ?? null, trace.unit)}</td><td>${kindAt(step)}</td></tr>`)}</tbody></table>`}</details>`;
  }
}

const Swatch = ({ children }) => html`<svg width="30" height="14" aria-hidden="true">${children}</svg>`;
const SampleLegend = () => html`<ul class="legend" aria-label="Legend of the signals">
  <li><${Swatch}><line x1="1" x2="29" y1="7" y2="7" class="ink" /><//>measured</li>
  <li><${Swatch}><line x1="1" x2="29" y1="7" y2="7" class="ink dotted" /><//>filled</li>
  <li><${Swatch}><circle cx="15" cy="7" r="4" class="ring" /><//>late</li>
  <li><${Swatch}><path d="M11 3 L19 11 M19 3 L11 11" class="cross" /><//>implausible</li>
  <li><${Swatch}><rect x="1" y="9" width="28" height="5" class="bar-flat" /><//>missing</li>
  <li><${Swatch}><rect x="1" y="1" width="28" height="12" class="band-swatch" /><//>normal in TRAIN</li>
  <li><${Swatch}><rect x="1" y="1" width="28" height="12" class="span-for" /><//>▲ speaks for</li>
  <li><${Swatch}><rect x="1" y="1" width="28" height="12" class="span-against" /><//>▽ speaks against</li>
  <li><${Swatch}><rect x="1" y="1" width="28" height="12" class="window-swatch" /><//>the window</li></ul>`;

function Recent() {
  if (!state.recent?.events.length) return null;
  return html`<section class="panel"><h2>Events</h2><div class="scroll"><table class="stack"><thead><tr><th scope="col">time</th><th scope="col">event</th><th scope="col">in words</th><th scope="col"><span class="hidden-text">its moment</span></th></tr></thead><tbody>
    ${state.recent.events.map((head) => html`<tr key=${head.id}><td><${When} at=${head.time_ms} /></td><td><${EventLink} id=${head.id}>${head.state ?? head.type}<//></td><td><${Sentence} text=${head.text} /></td>
      <td class="nowrap"><button type="button" onClick=${() => go({ view: "asset", id: head.asset, query: { at: new Date(head.time_ms).toISOString() } })}>See that moment<span class="hidden-text">, ${head.state ?? head.type}</span></button></td></tr>`)}</tbody></table></div>
    <p class="muted">The page reaches back to <${When} at=${state.recent.reach.oldest_ms ?? NaN} />.</p></section>`;
}
