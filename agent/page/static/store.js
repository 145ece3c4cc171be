// The page's one state, and how messages change it. Views read it; only `change` and the functions here write it.

import { clockOffset, freshness } from "./core/freshness.js";
import { parseRoute } from "./core/route.js";

const HEARTBEAT_MS = 5_000;
const STALE_WINDOWS = 5;
const STALE_AT_LEAST_MS = 15_000;

export const state = {
  route: parseRoute(location.hash),
  session: null,
  fleet: null,
  feed: null,
  alarms: null,
  asset: null,
  timeline: null,
  recent: null,
  event: null,
  held: null,
  rebuilt: null,
  health: null,
  letters: null,
  period: null,
  problem: "",
  viewProblem: "",
  trend: null,
  frozen: false,
  polling: false,
  selected: new Set(),
  sent: [],
  dialog: null,
  choices: loadChoices(),
  link: { ever: false, open: false, heardMs: performance.now(), heartbeatMs: HEARTBEAT_MS },
  offset: null,
  version: 0,
};

let schedule = () => {};
let waiting = false;

/** Draws at most once a frame; a hidden tab does not draw at all. */
export function onChange(draw) {
  schedule = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
}

export function change(values = {}) {
  Object.assign(state, values);
  state.version += 1;
  schedule();
}

export const serverNow = () => Date.now() + (state.offset ?? 0);

/** What "for how long" is counted by: a plant that is simulated faster than real time has a clock of its own. */
export const plantNow = () => Math.max(serverNow(), state.feed?.newest_ms ?? 0);

/** Every message proves the connection; those with the server's time also correct the browser's clock. */
export function heard(serverMs) {
  state.link = { ...state.link, ever: true, open: true, heardMs: performance.now() };
  if (typeof serverMs === "number") state.offset = clockOffset(state.offset, serverMs, Date.now());
}

/** live | stale | lost | connecting | empty, with `forMs`, and `why` in words where the server knows it. */
export function fresh() {
  const feed = state.feed;
  const newestMs = feed?.newest_ms ?? NaN;
  const agentsMs = feed?.agents_ms ?? null;
  const own = freshness(state.link, { newestMs, agentsMs, staleAfterMs: staleAfter() }, performance.now(), serverNow());
  if (own.kind === "lost" || own.kind === "connecting") return { ...own, why: "" };
  if (feed && feed.link !== "live") {
    return { kind: feed.link, forMs: serverNow() - feed.since_ms, why: feed.reason, remote: true };
  }
  return { ...own, why: "" };
}

/** A few windows of the slowest group: what is normal for it must not be called stale. */
function staleAfter() {
  const hops = (state.fleet?.groups ?? []).map((group) => group.hop_ms);
  return Math.max(STALE_AT_LEAST_MS, STALE_WINDOWS * Math.max(0, ...hops));
}

export function choose(name, value) {
  state.choices = { ...state.choices, [name]: value };
  try { localStorage.setItem("anchormoe", JSON.stringify(state.choices)); } catch { /* private mode: for this visit only */ }
  change();
}

function loadChoices() {
  const defaults = { utc: true, keys: true, sweep: false, order: "time", sound: false };
  try { return { ...defaults, ...JSON.parse(localStorage.getItem("anchormoe") ?? "{}") }; } catch { return defaults; }
}
