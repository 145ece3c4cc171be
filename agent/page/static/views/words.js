// Small pieces that every view uses: a state, a priority, a time, a link.

import { SHAPES } from "../core/alarms.js";
import { formatRoute } from "../core/route.js";
import { duration, moment } from "../core/times.js";
import { html } from "../dom.js";
import { plantNow, serverNow, state } from "../store.js";

export const StateWord = ({ name, kind }) => html`<span class="state" data-kind=${kind}>${name}</span>`;
export const Priority = ({ priority }) => priority && html`<span class="priority" data-priority=${priority}>${SHAPES[priority] ?? priority}<span class="hidden-text"> ${priority} priority</span></span>`;
export const When = ({ at, tenths = false }) => html`<time datetime=${Number.isFinite(at) ? new Date(at).toISOString() : ""} class="nowrap">${moment(at, serverNow(), { utc: state.choices.utc, tenths })}</time>`;
export const Ago = ({ at }) => html`<span class="nowrap">${Number.isFinite(at) ? duration(plantNow() - at) : "–"}</span>`;
export const AssetLink = ({ id, query = {} }) => html`<a href=${formatRoute({ view: "asset", id, query })}>${id}</a>`;
export const Since = ({ at }) => html`<span class="nowrap"><${When} at=${at} /> <span class="muted">(<${Ago} at=${at} />)</span></span>`;
/** Sentences name classes in backticks, for terminals; here the names are strong. */
export const Sentence = ({ text }) => String(text ?? "").split("`").map((part, place) => (place % 2 ? html`<strong key=${place}>${part}</strong>` : part));
export const EventLink = ({ id, children }) => html`<a href=${formatRoute({ view: "evidence", id })}>${children}</a>`;

export const go = (route) => { location.hash = formatRoute(route); };
/** Replaces a part of the query without a new entry in the browser's history. */
export function refine(values) {
  const route = { ...state.route, query: { ...state.route.query, ...values } };
  history.replaceState(null, "", formatRoute(route));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
