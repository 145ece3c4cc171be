// What every view has around it: the way, the urgent alarms, how old all of it is, and whether that can be believed.

import { shown, timeLeft, waiting } from "../core/alarms.js";
import { clock, duration, moment } from "../core/times.js";
import { html } from "../dom.js";
import { choose, fresh, serverNow, state } from "../store.js";
import { toneWaits } from "../sound.js";
import { AssetLink, Priority, When, go } from "./words.js";

const LINKS = [["fleet", "Fleet"], ["alarms", "Alarms"], ["shelf", "Shelf"], ["health", "Health"], ["models", "Models"], ["help", "Help"]];
const SIGNS = { live: "●", stale: "◐", lost: "✕", connecting: "…", empty: "○" };

export function Frame({ children, freeze, logout }) {
  const now = fresh();
  const past = state.route.query.at;
  return html`<a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById("content").focus(); }}>To the content</a>
    <header class="frame">
      <div class="bar">
        <span class="brand">anchormoe${state.session?.namespace ? ` · ${state.session.namespace}` : ""}</span>
        <nav aria-label="Views"><ul>${LINKS.map(([view, title]) => html`<li key=${view}><a href=${`#/${view}`} aria-current=${isCurrent(view) ? "page" : undefined}>${title}${view === "alarms" ? alarmCount() : ""}</a></li>`)}</ul></nav>
        <div class="end">
          <span class="fresh" data-kind=${now.kind}><span aria-hidden="true">${SIGNS[now.kind]}</span>${freshText(now)}</span>
          <button type="button" aria-pressed=${state.frozen ? "true" : "false"} onClick=${freeze}>${state.frozen ? "Frozen" : "Freeze"}</button>
          <button type="button" onClick=${() => choose("utc", !state.choices.utc)}>
            <span class="number">${clock(serverNow(), { utc: state.choices.utc })}</span> ${state.choices.utc ? "UTC" : "local"}<span class="hidden-text">; switch to ${state.choices.utc ? "local time" : "UTC"}</span></button>
          ${state.session?.user && html`<button type="button" onClick=${logout}>Log out ${state.session.user}</button>`}
        </div>
      </div>
      <${Urgent} />
      <${Silence} now=${now} />
      ${state.feed?.not_shown > 0 && html`<div class="silence" role="note">${notShown(state.feed.not_shown)}</div>`}
      ${toneWaits() && html`<div class="past" role="note"><strong>No tone yet</strong>: the browser wants a click on this page before new high alarms can be heard.</div>`}
      ${past && html`<div class="past" role="note"><strong>You see the past</strong>: <${When} at=${Date.parse(past)} tenths />. Alarms are live. <button type="button" onClick=${() => go({ ...state.route, query: { ...state.route.query, at: "" } })}>Back to live (Esc)</button></div>`}
      ${state.frozen && html`<div class="past" role="note"><strong>Frozen</strong>: what you see does not move; alarms go on. <button type="button" onClick=${freeze}>Go on</button></div>`}
    </header>
    <main id="content" tabindex="-1">${[state.problem, state.viewProblem].filter(Boolean).map((text) => html`<p key=${text} class="refused" role="status">${text}</p>`)}${children}</main>
    <footer>${state.session?.notice || "Decision support only: not a medical device, not a primary alarm."}${state.polling ? " This page asks every 5 s, because too many pages are open." : ""}${state.session ? ` Version ${state.session.version}.` : ""}</footer>`;
}

const isCurrent = (view) => state.route.view === view || (view === "fleet" && ["asset", "evidence"].includes(state.route.view));

function alarmCount() {
  if (!state.alarms?.configured) return "";
  if (state.alarms.link !== "live") return " (?)";
  const count = waiting(state.alarms.alarms).length;
  return count ? ` (${count})` : "";
}

function freshText(now) {
  const lag = state.feed?.lag > 1000 ? `, ${state.feed.lag.toLocaleString("en")} records behind` : "";
  if (now.aheadMs) return `live, plant's clock ${clock(state.feed.newest_ms, { utc: state.choices.utc })}${lag}`;
  if (now.kind === "live" && now.readOn) return `live, records read ${duration(now.forMs)} ago${lag}`;
  if (now.kind === "live") return `live, data ${duration(now.forMs)} old${lag}`;
  if (now.kind === "stale") return `stale: no new data for ${duration(now.forMs)}`;
  if (now.kind === "lost") return `no connection for ${duration(now.forMs)}`;
  return now.kind === "empty" ? "connected, no data yet" : "connecting";
}

/** Dead, stale and quiet are three different things, and are said in three different ways. */
function Silence({ now }) {
  if (now.kind === "live" || now.kind === "empty") return null;
  const newest = state.feed?.newest_ms;
  const until = newest ? ` What you see ended at ${moment(newest, serverNow(), { utc: state.choices.utc })}.` : "";
  const text = {
    lost: now.remote ? `The server lost its source ${duration(now.forMs)} ago: ${now.why || "no reason known"}. Nobody knows the present state of the plant.${until}`
      : `This page lost the server ${duration(now.forMs)} ago and keeps trying. Nobody knows the present state of the plant.${until}`,
    stale: `The connection works, but ${silent(now)}.${until}`,
    connecting: now.remote ? `Not everything has been read yet: ${now.why || "the server is catching up"}.` : "Connecting to the server …",
  }[now.kind];
  return html`<div class="silence" role="status">${text}</div>`;
}

/** What the page cannot hold, or does not know, is not well: it is not known. */
const notShown = (count) => `${count.toLocaleString("en")} further ${count === 1 ? "asset is" : "assets are"} not shown: beyond page.history.assets, or of a group that the settings of this page do not have. Nothing here says how ${count === 1 ? "it is" : "they are"}.`;

/** Who is silent, as far as that is known. */
function silent(now) {
  const { kind, lag } = state.feed ?? {};
  if (lag > 0) return `the agents have ${lag.toLocaleString("en")} records to read and have not got on for ${duration(now.forMs)}`;
  if (kind === "topics" && lag === null) return `no state has been published for ${duration(now.forMs)}; whether anything is sent is not known here`;
  return `no asset has sent anything for ${duration(now.forMs)}`;
}

function Urgent() {
  if (!state.alarms?.configured || state.alarms.link !== "live") return null;
  const urgent = shown(state.alarms.alarms).filter((one) => !one.held).slice(0, 3);
  if (!urgent.length) return null;
  return html`<ul class="urgent" aria-label="Most urgent alarms">${urgent.map((alarm) => {
    const left = timeLeft(alarm, serverNow());
    return html`<li key=${alarm.alarm}><${Priority} priority=${alarm.priority} /> <a href=${`#/alarms/${encodeURIComponent(alarm.alarm)}`}>${alarm.rule}</a> at <${AssetLink} id=${alarm.asset} />
      ${Number.isFinite(left) ? html` <span class="nowrap">${left < 0 ? `overdue by ${duration(-left)}` : `${duration(left)} left`}</span>` : ` ${alarm.state}`}</li>`;
  })}</ul>`;
}
