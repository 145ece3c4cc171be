// Time travel: the window judged again must give what was published.

import { html } from "../dom.js";
import { state } from "../store.js";

export function Verdict({ id, judged }) {
  const rebuilt = state.rebuilt;
  if (!rebuilt || rebuilt.event !== id) return judged ? html`<p class="verdict" data-identical="null">Judging the window again …</p>` : null;
  if (rebuilt.identical === null) return html`<p class="verdict" data-identical="null">Could not be judged again: ${rebuilt.reason || "no reason given"}. The evidence is as published.</p>`;
  const from = rebuilt.source === "log" ? "from the log" : "from the samples that the agent kept";
  return rebuilt.identical
    ? html`<p class="verdict" data-identical="true">✓ Judged again ${from}: <strong>identical to what was published</strong>.</p>`
    : html`<p class="verdict" data-identical="false" role="alert">✕ Judged again ${from}: <strong>differs from what was published</strong>. ${rebuilt.reason}</p>`;
}
