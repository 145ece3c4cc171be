// Single keys for people who look at the page all day; they can be switched off, and never fire while somebody types.

import { change, state } from "./store.js";
import { loadView } from "./sync.js";
import { openDialog } from "./views/alarms.js";
import { go } from "./views/words.js";

const typing = (target) => target.closest?.("input:not([type=checkbox]):not([type=radio]), textarea, select, dialog");

export function onKey(event, { freeze }) {
  if (!state.choices.keys || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && !event.target.closest?.("dialog")) return leave(event);
  if (typing(event.target)) return;
  const actions = {
    "/": () => focusSearch(),
    j: () => moveRow(1), k: () => moveRow(-1),
    a: () => openDialog("ack", chosenOrCurrent()), s: () => openDialog("shelve", chosenOrCurrent()),
    x: () => currentRow()?.querySelector("input[type=checkbox]")?.click(),
    t: () => document.getElementById("moment")?.focus(),
    w: () => document.getElementById("why-not")?.scrollIntoView(),
    g: () => go({ view: "fleet" }), l: () => go({ view: "alarms" }), "?": () => go({ view: "help" }),
    " ": () => { if (!event.target.closest?.("button, a, summary, input")) freeze(); else return false; return true; },
  };
  const action = actions[event.key];
  if (action && action() !== false) event.preventDefault();
}

function leave(event) {
  const { view, id, query } = state.route;
  if (typing(event.target)) { event.target.blur(); return; }
  if (query.at) go({ view, id, query: { ...query, at: "" } });
  else if (view === "evidence" && state.event) go({ view: "asset", id: state.event.head.asset });
  else if (view !== "fleet") go({ view: id && ["alarms", "shelf"].includes(view) ? view : "fleet" });
}

async function focusSearch() {
  if (state.route.view !== "fleet") { go({ view: "fleet" }); await new Promise((done) => setTimeout(done, 100)); }
  document.getElementById("search")?.focus();
}

const rows = () => [...document.querySelectorAll("tr[data-row]")];
const currentRow = () => document.activeElement?.closest?.("tr[data-row]");

/** The chosen alarms that are still listed; with none chosen the one of the row that has the focus. */
function chosenOrCurrent() {
  const listed = [...document.querySelectorAll("input[data-alarm]")].map((box) => box.dataset.alarm);
  const chosen = listed.filter((alarm) => state.selected.has(alarm));
  const own = currentRow()?.querySelector("input[data-alarm]")?.dataset.alarm;
  return chosen.length || !own ? chosen : [own];
}

function moveRow(step) {
  const list = rows();
  if (!list.length) return;
  const place = list.indexOf(currentRow());
  const next = list[Math.min(list.length - 1, Math.max(0, place < 0 ? 0 : place + step))];
  next.querySelector("a")?.focus();
}

/** What came while the view was frozen was not taken in: without reading it again it would look like a gap. */
export function toggleFreeze() {
  change({ frozen: !state.frozen });
  if (!state.frozen) loadView();
}
