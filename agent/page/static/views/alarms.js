// Alarms and the shelf: choose, acknowledge, shelve with a reason and an end, and see what became of each command.

import { PRESETS, endOfShelving, endOfShift, hidden, refuseEarly, shown, timeLeft } from "../core/alarms.js";
import { waterfall } from "../core/evidence.js";
import { duration, ms } from "../core/times.js";
import { Hatches, Waterfall } from "../charts/waterfall.js";
import { Component, html } from "../dom.js";
import { change, fresh, serverNow, state } from "../store.js";
import { sendCommand } from "../sync.js";
import { rowWords } from "./evidence.js";
import { AssetLink, Priority, Sentence, When } from "./words.js";

const TITLES = { ack: "Acknowledge", shelve: "Shelve", unshelve: "Unshelve", comment: "Comment", "out-of-service": "Out of service", "in-service": "In service", reset: "Reset" };

export function AlarmsView({ shelf = false }) {
  const alarms = state.alarms;
  if (!alarms) return html`<h1>${shelf ? "Shelf" : "Alarms"}</h1><p>Reading the alarms …</p>`;
  const list = shelf ? hidden(alarms.alarms) : shown(alarms.alarms);
  const detail = alarms.alarms.find((one) => one.alarm === state.route.id);
  return html`<div class="panel"><div class="head"><h1>${shelf ? "Shelf" : "Alarms"}</h1>${alarms.configured && html`<span class="muted">${list.length} ${shelf ? "hidden" : "present"}</span>`}</div>
    ${alarms.configured && alarms.link !== "live" && html`<p class="nothing-known" role="alert">The alarms are not known: ${alarms.reason || "no connection"}. What is listed may be old.</p>`}
    <${Tools} list=${list} shelf=${shelf} /><${Outcomes} />
    ${list.length ? html`<${Table} list=${list} shelf=${shelf} />` : html`<${None} shelf=${shelf} />`}</div>
    ${detail && html`<${Arrival} key=${detail.alarm}><${Detail} alarm=${detail} /><//>`}
    ${!detail && state.route.id && html`<section class="panel"><h2>${state.route.id}</h2><p>${alarms.link === "live" ? "This alarm is not present: it is over, or the plant has none of this name." : "Not known whether this alarm is present."}</p></section>`}
    ${state.dialog && html`<${CommandDialog} key=${state.dialog.verb} ...${state.dialog} />`}`;
}

/** "No alarms" is said only when it is known. */
function None({ shelf }) {
  const { configured, link } = state.alarms;
  if (!configured) return html`<p class="calm">This plant has no alarm rules: nothing is watched for you here. What is not normal is in the <a href="#/fleet">fleet</a>; rules are written in <code>alarms</code> of the plant's settings.</p>`;
  if (link !== "live" || ["lost", "connecting"].includes(fresh().kind)) return html`<p class="nothing-known">Not known whether there are alarms.</p>`;
  return html`<p class="calm">${shelf ? "Nothing is shelved, suppressed or out of service." : "✓ No alarms."}</p>`;
}

/** What this user may do here. */
const verbsOf = (shelf) => (shelf ? ["unshelve", "in-service", "comment"] : ["ack", "shelve", "comment", "out-of-service"]).filter((verb) => state.session?.commands?.includes(verb));

function Tools({ list, shelf }) {
  const verbs = verbsOf(shelf);
  const chosen = list.filter((one) => state.selected.has(one.alarm));
  if (!list.length) return null;
  if (!verbs.length) return html`<p class="muted">${state.session?.login ? html`You may look; to act, <a href="#/help" onClick=${askLogin}>log in as a user</a> with the role operate.` : html`To acknowledge or shelve, users are needed: see <code>anchormoe-agent users</code>.`}</p>`;
  return html`<div class="tools"><label><input type="checkbox" checked=${chosen.length === list.length} onChange=${(event) => change({ selected: new Set(event.target.checked ? list.map((one) => one.alarm) : []) })} />all shown</label>
    ${verbs.map((verb) => html`<button key=${verb} type="button" disabled=${!chosen.length} onClick=${() => openDialog(verb, chosen.map((one) => one.alarm))}>${TITLES[verb]}${chosen.length ? ` (${chosen.length})` : ""}</button>`)}
    <span class="muted">${chosen.length} chosen</span></div>`;
}

const askLogin = (event) => { event.preventDefault(); change({ dialog: null, session: { ...state.session, role: null } }); };
export const openDialog = (verb, alarms) => { if (alarms.length && state.session?.commands.includes(verb)) change({ dialog: { verb, alarms } }); };

function Table({ list, shelf }) {
  const choosing = verbsOf(shelf).length > 0;
  return html`<div class="scroll"><table class="stack"><thead><tr>${choosing && html`<th scope="col"><span class="hidden-text">choose</span></th>`}<th scope="col">alarm</th><th scope="col">asset</th><th scope="col">state</th>
      ${shelf ? html`<th scope="col">by, why</th><th scope="col">until</th>` : html`<th scope="col">raised</th><th scope="col" class="number">time left</th><th scope="col">what to do</th>`}</tr></thead>
    <tbody>${list.map((alarm) => html`<${Row} key=${alarm.alarm} alarm=${alarm} shelf=${shelf} choosing=${choosing} />`)}</tbody></table></div>`;
}

function Row({ alarm, shelf, choosing }) {
  const chosen = state.selected.has(alarm.alarm);
  const waits = alarm.state === "unacknowledged" || alarm.state === "returned";
  return html`<tr data-row="1" class=${`${waits ? "waiting" : ""} ${chosen ? "chosen" : ""}`}>${choosing && html`<td><input type="checkbox" aria-label=${`choose ${alarm.alarm}`} data-alarm=${alarm.alarm} checked=${chosen} onClick=${(event) => toggle(alarm.alarm, event.shiftKey, shelf)} /></td>`}
    <th scope="row"><${Priority} priority=${alarm.priority} /> <a href=${`#/${shelf ? "shelf" : "alarms"}/${encodeURIComponent(alarm.alarm)}`}>${alarm.rule}</a>${alarm.channel ? ` (${alarm.channel})` : ""}${alarm.members?.length ? ` holds ${alarm.members.length}` : ""}</th>
    <td><${AssetLink} id=${alarm.asset} /></td>
    <td>${alarm.state.replaceAll("_", " ")}${alarm.chattering ? ", chattering" : ""}${alarm.occurrences > 1 ? `, ${alarm.occurrences} times` : ""}</td>
    ${shelf ? html`<${ShelfCells} alarm=${alarm} />` : html`<td data-label="raised"><${When} at=${ms(alarm.raised)} /></td><td class="number" data-label="time left">${leftText(alarm)}</td><td>${alarm.rationale?.action ?? ""}</td>`}</tr>`;
}

function ShelfCells({ alarm }) {
  const hiding = alarm.shelved ?? alarm.out_of_service;
  const warning = endOfShelving(alarm, serverNow());
  return html`<td>${hiding ? `${hiding.by}: ${hiding.why}` : alarm.suppressed_by?.length ? `by ${alarm.suppressed_by.join(", ")}` : ""}</td>
    <td>${hiding?.until ? html`<${When} at=${ms(hiding.until)} />` : "no end"}${warning === "soon" ? html` <strong>ends in ${duration(ms(hiding.until) - serverNow())}</strong>` : warning === "over" ? html` <strong>is over</strong>` : ""}</td>`;
}

function leftText(alarm) {
  const left = timeLeft(alarm, serverNow());
  if (!Number.isFinite(left)) return "–";
  return left < 0 ? `overdue by ${duration(-left)}` : duration(left);
}

let anchor = null;

/** Shift chooses everything between this row and the last one. */
function toggle(id, range, shelf) {
  const list = (shelf ? hidden : shown)(state.alarms.alarms).map((one) => one.alarm);
  const selected = new Set(state.selected);
  const [from, to] = [list.indexOf(anchor), list.indexOf(id)].sort((one, other) => one - other);
  if (range && from >= 0) list.slice(from, to + 1).forEach((one) => selected.add(one));
  else if (selected.has(id)) selected.delete(id);
  else selected.add(id);
  anchor = id;
  change({ selected });
}

function Outcomes() {
  if (!state.sent.length) return null;
  return html`<div aria-label="Commands" role="region"><ul class="chips">${state.sent.slice(0, 6).map((one) => html`<li key=${one.command + one.alarm} class=${one.outcome === "refused" ? "refused" : "done"}>${TITLES[one.verb]} ${one.alarm}: <strong>${one.outcome}</strong>${one.reason ? `, ${one.reason}` : ""}</li>`)}</ul></div>`;
}

/** Below two hundred alarms nobody would see that something was opened. */
class Arrival extends Component {
  componentDidMount() { this.box.focus({ preventScroll: true }); this.box.scrollIntoView(); }

  render({ children }) { return html`<div tabindex="-1" ref=${(node) => { this.box = node ?? this.box; }}>${children}</div>`; }
}

function Detail({ alarm }) {
  const done = state.alarms.audit.filter((one) => one.alarm === alarm.alarm).slice(0, 10);
  const events = [["Raised by", alarm.raised_by], ["Strongest since", alarm.strongest]].filter(([, event], place) => event && (place === 0 || event.event !== alarm.raised_by?.event));
  return html`<section class="panel"><h2>${alarm.alarm}</h2><dl class="facts">
    ${alarm.rationale && html`<dt>do</dt><dd><strong>${alarm.rationale.action}</strong></dd><dt>cause</dt><dd>${alarm.rationale.cause}</dd><dt>consequence</dt><dd>${alarm.rationale.consequence}</dd>`}
    <dt>raised</dt><dd><${When} at=${ms(alarm.raised)} />, ${alarm.occurrences === 1 ? "for the first time" : `${alarm.occurrences} times in all`}</dd>
    ${alarm.members?.length > 0 && html`<dt>holds</dt><dd>${alarm.members.slice(0, 20).join(", ")}</dd>`}</dl>
    <${Hatches} /><div class=${events.length > 1 ? "halves" : ""}>${events.map(([title, event]) => html`<${Reason} key=${title} title=${title} event=${event} />`)}</div>
    <h3>What was done</h3>${!done.length && html`<p class="muted">Nothing yet, or longer ago than the page reaches.</p>`}<ul>${done.map((one) => html`<li key=${one.id}><${When} at=${ms(one.at)} /> ${one.by}: ${one.act}, ${one.outcome}${one.reason ? ` (${one.reason})` : ""}${one.why ? `: ${one.why}` : ""}</li>`)}</ul></section>`;
}

/** An event that spoke for the alarm, as it was when it did; the page may not reach back to it any more. */
function Reason({ title, event }) {
  const { evidence } = event;
  const terms = evidence && Array.isArray(evidence.spans) ? [evidence.context, ...evidence.spans.map((span) => span.contribution), evidence.remainder] : [];
  const total = terms.length && terms.every(Number.isFinite) ? terms.reduce((sum, term) => sum + term, 0) : null;
  return html`<div><h3>${title}${event.end ? html`: <${When} at=${ms(event.end)} />` : ""}</h3>
    <p><${Sentence} text=${event.text ?? event.state ?? ""} /> ${typeof event.probability === "number" ? `(p ${event.probability.toFixed(2)})` : ""} ${event.event ? html`<a href=${`#/evidence/${encodeURIComponent(event.event)}`}>All the evidence</a>` : ""}</p>
    ${total !== null && html`<${Waterfall} fall=${waterfall(evidence, total)} words=${rowWords} totalWords=${`score of ${evidence.class ?? "the state"}`} />`}</div>`;
}

const SHIFT = "shift";
const CHOICES = [...PRESETS.map(({ name, forMs }) => ({ name, value: String(forMs / 60_000) })), { name: "end of the shift (6, 14, 22 h local time)", value: SHIFT }];

class CommandDialog extends Component {
  constructor() { super(); this.state = { why: "", minutes: "", error: "", busy: false }; }

  componentDidMount() { this.box.showModal(); }

  close() { this.box.close(); change({ dialog: null }); }

  until() {
    if (this.state.minutes === SHIFT) return endOfShift(serverNow());
    const forMs = Number(this.state.minutes) * 60_000;
    return forMs > 0 ? serverNow() + forMs : NaN;
  }

  async submit(event) {
    event.preventDefault();
    const { verb, alarms } = this.props;
    const until = this.until();
    const error = refuseEarly(verb, { why: this.state.why, until, now: serverNow(), maxMs: 1000 * (state.alarms.max_shelving_s ?? Infinity) });
    if (error) return this.setState({ error });
    this.setState({ busy: true });
    try {
      await sendCommand(verb, alarms, { why: this.state.why.trim(), until: verb === "shelve" ? new Date(until).toISOString() : null });
      return this.close();
    } catch (problem) {
      return this.setState({ error: problem.message, busy: false });
    }
  }

  render({ verb, alarms }, { why, minutes, error, busy }) {
    const needed = ["shelve", "comment", "out-of-service"].includes(verb);
    return html`<dialog ref=${(node) => { this.box = node ?? this.box; }} aria-labelledby="dialog-title" onCancel=${() => change({ dialog: null })}>
      <form onSubmit=${(event) => this.submit(event)} novalidate><h2 id="dialog-title">${TITLES[verb]} ${alarms.length === 1 ? alarms[0] : `${alarms.length} alarms`}</h2>
        <label class="field">Reason${needed ? " (required)" : ""}<textarea id="why" rows="2" maxlength="500" required=${needed} value=${why} onInput=${(event) => this.setState({ why: event.target.value })}></textarea></label>
        ${verb === "shelve" && html`<fieldset><legend>Until (required)</legend>${CHOICES.map((one) => html`<label key=${one.name}><input type="radio" name="until" value=${one.value} checked=${minutes === one.value} onChange=${(event) => this.setState({ minutes: event.target.value })} />${one.name}</label> `)}
          <label class="field">or minutes<input type="number" min="1" step="1" value=${minutes === SHIFT ? "" : minutes} onInput=${(event) => this.setState({ minutes: event.target.value })} /></label>
          ${Number.isFinite(this.until()) && html`<p>Until <${When} at=${this.until()} /> ${state.choices.utc ? "UTC" : "local time"}.</p>`}</fieldset>`}
        ${error && html`<p class="refused" role="alert">${error}</p>`}
        <div class="tools"><button type="submit" disabled=${busy}>${TITLES[verb]}</button><button type="button" onClick=${() => this.close()}>Cancel</button></div></form></dialog>`;
  }
}
