// What to do about a state, as the plant's engineers wrote it down.

import { html } from "../dom.js";
import { state } from "../store.js";

/** The advice for a state of a group; undefined where nobody wrote any. */
export function adviceFor(group, name) {
  const info = state.fleet?.groups.find((one) => one.name === group);
  return info?.advice?.find((one) => one.states.includes(name));
}

export function Advice({ found, brief = false }) {
  if (!found) return null;
  if (brief) return html`<div class="muted">→ ${found.action}</div>`;
  return html`<p class="action"><strong>${found.action}</strong></p>
    ${(found.cause || found.consequence) && html`<p class="muted">${found.cause} ${found.consequence}</p>`}`;
}
