// Keeps the state fresh: the stream, its fallbacks, and what each view needs beside it.

import { api, openStream } from "./api.js";
import { applyDelta, makeFleet } from "./core/fleet.js";
import { appendSamples, withNewer } from "./core/samples.js";
import { HIDDEN_CLOSE_MS, POLL_MS, afterRefusal, retryDelay } from "./core/stream_state.js";
import { announce } from "./dom.js";
import { alarmTone } from "./sound.js";
import { change, heard, state } from "./store.js";

const KEEP_STEPS = 1_200;
const REBUILD_TURNS = 6;
const REBUILD_AGAIN_MS = 2_000;
const REFRESH_EVERY_MS = 15_000;
const HEALTH_EVERY_MS = 3_000;

let closeStream = null;
let retryTimer = 0;
let pollTimer = 0;
let hiddenTimer = 0;
let failures = 0;
let streamAsset = null;

export async function start() {
  try {
    const session = await api.session();
    heard(session.now_ms);
    change({ session });
    if (session.role === null) return;
    await readFleet();
    await loadView();
    connect();
    readAlarms();
  } catch (error) {
    change({ problem: error.message });
    retryTimer = setTimeout(start, retryDelay(++failures, Math.random()));
  }
}

async function readFleet() {
  const answer = await api.fleet();
  heard(answer.now_ms);
  change({ fleet: makeFleet(answer), feed: answer.feed, problem: "" });
}

export async function readAlarms() {
  try {
    const alarms = await api.alarms();
    warnOfNew(state.alarms, alarms);
    change({ alarms });
  } catch (error) {
    change({ alarms: { ...(state.alarms ?? { alarms: [], audit: [], configured: true }), link: "lost", reason: error.message } });
  }
}

function warnOfNew(before, after) {
  const known = new Set((before?.alarms ?? []).filter((one) => one.state === "unacknowledged").map((one) => one.alarm));
  const fresh = after.alarms.filter((one) => one.state === "unacknowledged" && one.priority === "high" && !known.has(one.alarm));
  if (before && fresh.length) alarmTone();
  if (before && fresh.length) announce(`New high alarm: ${fresh.map((one) => `${one.rule} at ${one.asset}`).join("; ")}`, true);
}

function connect() {
  closeStream?.();
  clearTimeout(retryTimer);
  streamAsset = wantedAsset();
  closeStream = openStream({ after: state.fleet.seq, asset: streamAsset ?? undefined }, {
    on: receive,
    onOpen: () => { failures = 0; clearInterval(pollTimer); pollTimer = 0; heard(); change({ polling: false, problem: "" }); },
    onEnd: reconnect,
  });
}

/** The asset whose samples are shown; for one that nobody knows there would be no stream at all. */
function wantedAsset() {
  const { view, id, query } = state.route;
  return view === "asset" && !query.at && state.fleet.index.has(id) ? id : null;
}

async function reconnect() {
  closeStream = null;
  state.link = { ...state.link, open: pollTimer !== 0 };
  change();
  if (document.hidden) return;
  failures += 1;
  clearTimeout(retryTimer);
  retryTimer = setTimeout(resume, retryDelay(failures, Math.random()));
}

/** EventSource hides the status of a refusal: one plain request tells whether to log in, to poll or to go on trying. */
async function resume() {
  try {
    await readFleet();
    readAlarms();
    if (failures >= 3) startPolling();
    connect();
  } catch (error) {
    if (afterRefusal(error.status) === "login") return start();
    change({ problem: error.message });
    reconnect();
  }
}

function startPolling() {
  if (pollTimer) return;
  change({ polling: true });
  pollTimer = setInterval(() => readFleet().then(loadView, (error) => change({ problem: error.message })), POLL_MS);
}

function receive(kind, data) {
  heard(data.now_ms);
  if (kind === "h") change({ feed: data.feed });
  if (kind === "d") receiveDelta(data);
  if (kind === "s") receiveSamples(data);
  if (kind === "e") receiveHeads(data);
  if (kind === "a") readAlarms();
  if (kind === "o") receiveOutcomes(data);
  if (kind === "reset") readFleet().then(loadView).catch(() => {});
}

function receiveDelta(delta) {
  if (!state.fleet || applyDelta(state.fleet, delta) === null) return readFleet().catch(() => {});
  const feed = state.feed && delta.newest_ms !== null ? { ...state.feed, newest_ms: delta.newest_ms } : state.feed;
  return change({ feed });
}

function receiveSamples(message) {
  const asset = state.asset;
  if (!asset || asset.asset !== message.asset || state.frozen) return;
  const signals = asset.signals && appendSamples(asset.signals, message, KEEP_STEPS);
  if (signals) change({ asset: { ...asset, signals } });
  else if (message.values.length) loadView();
}

function receiveHeads(heads) {
  if (heads.some((head) => head.asset === streamAsset) && !state.frozen) loadView();
}

function receiveOutcomes(records) {
  const sent = state.sent.map((one) => {
    const record = records.find((other) => other.input === one.command);
    return record ? { ...one, outcome: record.outcome, reason: record.reason } : one;
  });
  const finished = sent.filter((one, place) => one.outcome !== state.sent[place].outcome);
  for (const one of finished) announce(`${one.verb} ${one.alarm}: ${one.outcome} ${one.reason}`);
  change({ sent });
}

/** What the present view shows beside the fleet; called at every change of the address, and when it changed. */
export async function loadView() {
  const { view, id, query } = state.route;
  const here = () => state.route.view === view && state.route.id === id && state.route.query.at === query.at;
  try {
    if (view === "asset") await loadAsset(id, query, here);
    if (view === "evidence") await loadEvidence(id, here);
    if (view === "health" || view === "models") { const health = await api.health(); if (here()) change({ health }); }
    if (view === "health") { const letters = await api.letters(query.reason); if (here()) change({ letters }); }
    if (view === "fleet") { const trend = await api.trend(); if (here()) change({ trend }); }
    if (view === "fleet" && query.from && query.to) { const period = await api.period(query.from, query.to); if (here()) change({ period }); }
    if (view === "alarms" || view === "shelf") await readAlarms();
    if (here()) change({ viewProblem: "" });
  } catch (error) {
    if (here()) change({ viewProblem: error.message });
  }
}

async function loadAsset(id, query, here) {
  if (!query.at && closeStream && streamAsset !== wantedAsset()) connect();
  const to = query.at ? Date.parse(query.at) + 1 : undefined;
  const [asset, timeline, recent, states] = await Promise.all([
    api.asset(id), api.timeline(id, 600), api.events({ asset: id, limit: 12, to }), query.at ? api.events({ asset: id, type: "state", limit: 1, to }) : null,
  ]);
  if (!here()) return;
  heard(asset.now_ms);
  const before = state.asset?.asset === id ? state.asset.signals : null;
  change({ asset: { ...asset, signals: withNewer(asset.signals, before, KEEP_STEPS) }, timeline, recent });
  if (states) await loadPast(states.events[0], { asset: id, at: query.at }, here);
}

/** The state that held at a moment, with its window judged again: that has the samples. */
async function loadPast(head, moment, here) {
  change({ held: { ...moment, event: head?.id ?? null } });
  if (!head) return change({ event: null, rebuilt: null });
  const event = state.event?.head.id === head.id ? state.event : await api.event(head.id);
  if (!here()) return undefined;
  change({ event });
  return loadRebuilt(head.id, here);
}

let rebuilding = { id: "", answer: null };

async function loadRebuilt(id, here) {
  if (state.rebuilt?.event === id) return;
  if (rebuilding.id !== id) rebuilding = { id, answer: rebuild(id, here) };
  const rebuilt = await rebuilding.answer;
  if (rebuilding.id === id) rebuilding = { id: "", answer: null };
  if (rebuilt && here()) change({ rebuilt });
}

/** A server that is busy is asked again: the first window of a model takes longest. */
async function rebuild(id, here) {
  for (let turn = 1; here(); turn += 1) {
    try {
      return await api.rebuild(id);
    } catch (error) {
      if (turn >= REBUILD_TURNS || ![429, 503].includes(error.status)) return { event: id, identical: null, reason: error.message, experts: [] };
      await new Promise((done) => setTimeout(done, REBUILD_AGAIN_MS));
    }
  }
  return null;
}

async function loadEvidence(id, here) {
  if (state.event?.head.id !== id) change({ event: null, rebuilt: null });
  const event = state.event ?? await api.event(id);
  if (!here()) return;
  change({ event });
  if (event.data.evidence) await loadRebuilt(id, here);
}

export async function sendCommand(verb, alarms, { why = "", until = null } = {}) {
  const answer = await api.command(verb, { alarms, why, until });
  const sent = answer.commands.map((one) => ({ ...one, verb, outcome: one.command ? "sent" : "refused", reason: one.error }));
  change({ sent: [...sent, ...state.sent].slice(0, 50), selected: new Set() });
}

/** Browsers give a page six connections: a tab that nobody sees must not keep one, unless somebody listens for its tone. */
export function onVisibility() {
  clearTimeout(hiddenTimer);
  if (document.hidden) {
    if (state.choices.sound) return;
    hiddenTimer = setTimeout(() => { closeStream?.(); closeStream = null; state.link = { ...state.link, open: false }; }, HIDDEN_CLOSE_MS);
  } else if (!closeStream && state.fleet) {
    failures = 0;
    resume();
  }
}

/** The trend of the fleet; of an asset what the stream of samples does not tell: the state now, what was filled, what is missing. */
const refreshed = ({ view, query }) => view === "fleet" || (view === "asset" && !query.at);

/** Health has no messages of its own. */
export function startTimers() {
  const seen = () => state.session?.role && !document.hidden && !state.frozen;
  setInterval(() => { if (state.route.view === "health" && seen()) loadView(); }, HEALTH_EVERY_MS);
  setInterval(() => { if (refreshed(state.route) && seen()) loadView(); }, REFRESH_EVERY_MS);
  setInterval(() => change(), 1_000);
}
