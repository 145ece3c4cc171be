// The page's beginning: one state, one drawing per frame, one view by the address.

import { api } from "./api.js";
import { parseRoute } from "./core/route.js";
import { announce, html, render } from "./dom.js";
import { onKey, toggleFreeze } from "./keys.js";
import { change, fresh, onChange, state } from "./store.js";
import { loadView, onVisibility, start, startTimers } from "./sync.js";
import { AlarmsView } from "./views/alarms.js";
import { AssetView } from "./views/asset.js";
import { Boundary } from "./views/boundary.js";
import { EvidenceView } from "./views/evidence.js";
import { FleetView } from "./views/fleet.js";
import { Frame } from "./views/frame.js";
import { HealthView, ModelsView } from "./views/health.js";
import { HelpView, LoginView } from "./views/help.js";

const VIEWS = {
  fleet: FleetView, asset: AssetView, evidence: EvidenceView, alarms: AlarmsView,
  shelf: () => html`<${AlarmsView} shelf />`, health: HealthView, models: ModelsView, help: HelpView,
};
const TITLES = { fleet: "Fleet", alarms: "Alarms", shelf: "Shelf", health: "Health", models: "Models", help: "Help", evidence: "Evidence" };

function draw() {
  const { route, session } = state;
  document.body.dataset.fresh = fresh().kind;
  if (route.query.at) document.body.dataset.past = "1"; else delete document.body.dataset.past;
  document.title = `${titleOf(route)} · anchormoe`;
  const page = document.getElementById("page");
  if (session && session.role === null) return render(html`<${LoginView} />`, page);
  return render(html`<${Frame} freeze=${toggleFreeze} logout=${logout}>${view()}<//>`, page);
}

const titleOf = (route) => TITLES[route.view] ?? route.id;

let shown = null;

/** A frozen view stays the very element it was, so that nothing in it is drawn again; a dialogue must still open. */
function view() {
  const { frozen, route, dialog } = state;
  if (!frozen || dialog || shown?.route !== route) shown = { route, element: html`<${Boundary} key=${`${route.view} ${route.id} ${route.query.at ?? ""}`}><${VIEWS[route.view]} key=${route.view} /><//>` };
  return shown.element;
}

async function logout() {
  await api.logout().catch(() => {});
  location.reload();
}

addEventListener("hashchange", () => {
  const route = parseRoute(location.hash);
  const moved = route.view !== state.route.view || route.id !== state.route.id;
  change({ route, viewProblem: "" });
  if (moved) { change({ selected: new Set(), frozen: false, dialog: null }); scrollTo(0, 0); enter(route); }
  loadView();
});
/** The link that led here is gone: the keyboard goes on at the new view, and a screen reader hears which one it is. */
function enter(route) {
  document.getElementById("content")?.focus({ preventScroll: true });
  announce(titleOf(route));
}

addEventListener("keydown", (event) => onKey(event, { freeze: toggleFreeze }));
document.addEventListener("visibilitychange", onVisibility);

document.getElementById("page").replaceChildren();
onChange(draw);
change();
startTimers();
start();
