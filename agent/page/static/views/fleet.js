// Level 1: all assets in their places, and the list of what is not normal, worst first.

import { FleetCanvas } from "../charts/fleet_canvas.js";
import { Strip } from "../charts/strip.js";
import { counts, groupName, kindOf, matcher, placesByGroup, priorityOf, stateName, sureOf, whyOf, worstFirst } from "../core/fleet.js";
import { clock, duration } from "../core/times.js";
import { Component, html } from "../dom.js";
import { fresh, plantNow, state } from "../store.js";
import { Advice, adviceFor } from "./advice.js";
import { AssetLink, Priority, Since, StateWord, When, go, refine } from "./words.js";

const MOST_ROWS = 200;
const FIRST_ROWS = 40;
let cache = { fleet: null, count: 0, places: [] };
let listed = { fleet: null };

/** What is odd, and how many are in each state; found again only when the fleet or the question changed. */
function look(fleet, wanted) {
  const asked = JSON.stringify(wanted);
  if (listed.fleet !== fleet || listed.seq !== fleet.seq || listed.asked !== asked) {
    listed = { fleet, seq: fleet.seq, asked, found: worstFirst(fleet, wanted), counts: counts(fleet) };
  }
  return listed;
}

export function FleetView() {
  const fleet = state.fleet;
  if (!fleet) return html`<p>Reading the fleet …</p>`;
  const { q = "", group = "", state: wanted = "", all = "", alarm = "" } = state.route.query;
  const { found, counts: perState } = look(fleet, { text: q, group, state: wanted, alarm: Boolean(alarm), withNormal: Boolean(all || q || wanted) });
  return html`<h1 class="hidden-text">Fleet</h1>
    <div class="columns">
      <section class="panel" aria-label="Not normal, worst first"><div class="head"><h2>${q || wanted || all || alarm ? "Found" : "Not normal"}: ${found.length.toLocaleString("en")} of ${fleet.assets.length.toLocaleString("en")}</h2><span class="muted">worst first</span></div>
        <${Tools} fleet=${fleet} />
        <${List} fleet=${fleet} found=${found} filtered=${Boolean(q || group || wanted || alarm)} /></section>
      <section class="panel" aria-label="All assets"><div class="head"><h2>All ${fleet.assets.length.toLocaleString("en")} assets</h2><span class="muted">each has its place, whatever its state</span></div>
        <${Counters} counts=${perState} />
        <${Groups} fleet=${fleet} text=${q} />
        <${Legend} /><${PeriodForm} /></section>
    </div>`;
}

function Tools({ fleet }) {
  const { q = "", group = "", all = "", alarm = "" } = state.route.query;
  return html`<div class="tools" role="search">
    <input id="search" type="search" aria-label="Search assets, groups, states, reasons" placeholder="Search ( / )" value=${q} onInput=${(event) => refine({ q: event.target.value })} />
    <select aria-label="Group" value=${group} onChange=${(event) => refine({ group: event.target.value })}><option value="">all groups</option>
      ${fleet.groups.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}</select>
    ${state.alarms?.configured && html`<label><input type="checkbox" checked=${Boolean(alarm)} onChange=${(event) => refine({ alarm: event.target.checked ? "1" : "" })} />with alarm</label>`}
    <label><input type="checkbox" checked=${Boolean(all)} onChange=${(event) => refine({ all: event.target.checked ? "1" : "" })} />normal, too</label></div>`;
}

const UNKNOWN_BECAUSE = {
  stale: "The last known states were normal, but the data is old.",
  lost: "Not known: there is no connection.",
  connecting: "Not known yet: not everything has been read.",
};

/** Nothing in the list is good news only while the connection and the data are good. */
function Nothing({ filtered, count }) {
  const now = fresh();
  if (filtered) return html`<p class="calm">No asset matches.</p>`;
  if (now.kind === "live" && count > 0) return html`<p class="calm">✓ All ${count.toLocaleString("en")} assets${state.feed?.not_shown > 0 ? " that are shown" : ""} are normal, as of ${clock(now.knownMs, { utc: state.choices.utc })}.</p>`;
  if (now.kind === "live" || now.kind === "empty") return html`<p class="calm">No asset has been seen yet.</p>`;
  return html`<p class="nothing-known">${UNKNOWN_BECAUSE[now.kind]} This does not mean that all is well.</p>`;
}

function List({ fleet, found, filtered }) {
  if (!found.length) return html`<${Nothing} filtered=${filtered} count=${fleet.assets.length} />`;
  const rows = state.route.query.more ? MOST_ROWS : FIRST_ROWS;
  return html`<div class="scroll"><table class="stack fleet-list"><thead><tr><th scope="col">asset</th><th scope="col">state</th><th scope="col">since</th><th scope="col" class="number">sure</th><th scope="col">why</th></tr></thead>
    <tbody>${found.slice(0, rows).map((place) => html`<${Row} key=${fleet.assets[place]} fleet=${fleet} place=${place} looks=${looks(fleet, place)} />`)}</tbody></table></div>
    ${found.length > rows && rows < MOST_ROWS && html`<button type="button" onClick=${() => refine({ more: "1" })}>Show the next ${Math.min(MOST_ROWS, found.length) - rows}</button>`}
    ${found.length > MOST_ROWS && html`<p class="muted">At most the worst ${MOST_ROWS} of ${found.length.toLocaleString("en")} are listed; search or filter for the others.</p>`}`;
}

const looks = (fleet, place) => `${fleet.state[place]} ${fleet.p[place]} ${fleet.since_ms[place]} ${duration(plantNow() - fleet.since_ms[place])} ${fleet.flags[place]} ${fleet.alarm[place]} ${fleet.reason[place]} ${state.choices.utc}`;

/** Drawn again only when it looks different: most rows are the same from one second to the next. */
class Row extends Component {
  shouldComponentUpdate(next) { return next.looks !== this.props.looks || next.place !== this.props.place || next.fleet !== this.props.fleet; }

  render({ fleet, place }) {
    const { reason, flags } = whyOf(fleet, place);
    return html`<tr data-row="1"><th scope="row"><${Priority} priority=${priorityOf(fleet, place)} /> <${AssetLink} id=${fleet.assets[place]} /> <span class="muted optional">${groupName(fleet, place)}</span></th>
      <td><${StateWord} name=${stateName(fleet, place)} kind=${kindOf(fleet, place)} /></td>
      <td data-label="since"><${Since} at=${fleet.since_ms[place] || NaN} /></td>
      <td class="number" data-label="sure">${sureOf(fleet, place)}</td>
      <td data-label="why">${reason}${flags && html` <span class="muted">(${flags})</span>`}<${Advice} found=${adviceFor(groupName(fleet, place), stateName(fleet, place))} brief /></td></tr>`;
  }
}

function Counters({ counts: perState }) {
  const { state: wanted = "" } = state.route.query;
  return html`<ul class="chips" aria-label="Assets per state">${perState.map(([name, count, kind]) => html`<li key=${name}>
    <button type="button" aria-pressed=${wanted === name ? "true" : "false"} onClick=${() => refine({ state: wanted === name ? "" : name })}>${count.toLocaleString("en")} <${StateWord} name=${name} kind=${wanted === name ? "" : kind} />${trendText(name, count)}</button></li>`)}</ul>`;
}

/** Against an hour ago, where that is known. */
function trendText(name, count) {
  const before = state.trend?.hour_ago;
  if (!before) return "";
  const change = count - (before[name] ?? 0);
  return html` <span class="muted">${change > 0 ? `↑ ${change}` : change < 0 ? `↓ ${-change}` : "="}<span class="hidden-text"> in the last hour</span></span>`;
}

function Groups({ fleet, text }) {
  if (cache.fleet !== fleet || cache.count !== fleet.assets.length) cache = { fleet, count: fleet.assets.length, places: placesByGroup(fleet) };
  const matches = text ? matcher(fleet, text) : null;
  return fleet.groups.map((group, number) => cache.places[number].length > 0 && html`<div key=${group.name} class="fleet-group"><h3>${group.name} <span class="muted">${cache.places[number].length.toLocaleString("en")}</span></h3>
    <${FleetCanvas} fleet=${fleet} places=${cache.places[number]} version=${state.version} label=${`${group.name}: ${cache.places[number].length} assets`}
      dimmed=${matches && ((place) => !matches(place))} open=${(id) => go({ view: "asset", id })} /></div>`);
}

const Legend = () => html`<ul class="legend" aria-label="Legend">
  <li><svg width="14" height="14" aria-hidden="true"><rect width="14" height="14" class="run-normal" /></svg>normal</li>
  <li><svg width="14" height="14" aria-hidden="true"><rect x="1" y="1" width="12" height="12" fill="none" class="axis" stroke-width="2" /></svg>not normal</li>
  <li><span class="swatch-unknown" aria-hidden="true"></span>unknown</li>
  <li><${Priority} priority="high" /> <${Priority} priority="medium" /> <${Priority} priority="low" /> alarm</li></ul>`;

/** What was odd in a period: the assets ranked. Brush the strip, or press a button. */
function PeriodForm() {
  const { from, to } = state.route.query;
  const choose = (start, end) => refine({ from: start, to: end });
  const last = (minutes) => choose(Math.round(plantNow() - minutes * 60_000), Math.round(plantNow()));
  return html`<h3>Changes per minute</h3>
    ${state.trend?.end_ms ? html`<${Strip} trend=${state.trend} utc=${state.choices.utc} choose=${choose} chosen=${from ? [Number(from), Number(to)] : null} />` : html`<p class="muted">No change has been seen yet.</p>`}
    <div class="tools"><span class="muted">What was odd? Brush the strip, or</span>
    ${[5, 60, 480, 1440].map((minutes) => html`<button key=${minutes} type="button" onClick=${() => last(minutes)}>last ${duration(minutes * 60_000)}</button>`)}
    ${from && html`<button type="button" onClick=${() => refine({ from: "", to: "" })}>clear</button>`}</div>
    ${from && state.period && html`<table class="stack"><caption>From <${When} at=${state.period.start_ms} /> to <${When} at=${state.period.end_ms} />, worst first</caption><thead><tr><th scope="col">asset</th><th scope="col" class="number">not normal</th><th scope="col" class="number">unknown</th><th scope="col" class="number">changes</th></tr></thead>
      <tbody>${state.period.rows.slice(0, 50).map((row) => html`<tr key=${row.asset}><th scope="row"><${AssetLink} id=${row.asset} /></th><td class="number" data-label="not normal">${duration(row.abnormal_ms)}</td><td class="number" data-label="unknown">${duration(row.unknown_ms)}</td><td class="number" data-label="changes">${row.changes}</td></tr>`)}</tbody></table>
      ${!state.period.rows.length && html`<p class="calm">Nothing odd is known of this period.</p>`}`}`;
}
