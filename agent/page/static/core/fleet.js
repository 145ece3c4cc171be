// All assets in columns: applying deltas, worst first, searching, counting. Pure; 10,000 assets cost milliseconds.

export const UNKNOWN = "unknown";
export const PRIORITIES = ["", "low", "medium", "high"];
const UNACKNOWLEDGED = 4;
const FLAGS = [[1, "channel missing"], [2, "sensor implausible"], [4, "no data"], [8, "late, or clock went back"], [16, "unsettled"]];
const KINDS = { abnormal: 3, [UNKNOWN]: 4, normal: 5 };

/** The answer of /api/fleet with an index of names. The columns are changed in place by deltas. */
export function makeFleet(answer) {
  const newest = answer.feed.newest_ms ?? 0;
  return { ...answer, since_ms: answer.since.map((since) => newest - since), index: new Map(answer.assets.map((name, place) => [name, place])) };
}

export const stateName = (fleet, place) => fleet.states[fleet.state[place]] ?? "none yet";
export const groupName = (fleet, place) => fleet.groups[fleet.group[place]]?.name ?? "";
export const priorityOf = (fleet, place) => PRIORITIES[fleet.alarm[place] & 3];
export const isWaiting = (fleet, place) => (fleet.alarm[place] & UNACKNOWLEDGED) !== 0;
export const flagsText = (flags) => FLAGS.filter(([bit]) => flags & bit).map(([, text]) => text).join(", ");

/** Of the state that is shown; of an unknown one nobody is sure. */
export function sureOf(fleet, place) {
  const p = fleet.p[place];
  return p < 0 || kindOf(fleet, place) === UNKNOWN ? "–" : p > 99 ? "> 99 %" : `${p} %`;
}

/** Why it is so, with what is odd about its signals; said once. */
export function whyOf(fleet, place) {
  const flags = flagsText(fleet.flags[place]);
  return { reason: fleet.reason[place], flags: flags === fleet.reason[place] ? "" : flags };
}

/** "normal", "unknown" or "abnormal": what decides whether a cell is grey, hatched or outlined. */
export function kindOf(fleet, place) {
  const state = fleet.state[place];
  if (state < 0 || fleet.states[state] === UNKNOWN) return UNKNOWN;
  return fleet.normal[state] ? "normal" : "abnormal";
}

/** Applies a delta; returns whether assets were added, or null where it does not fit and the fleet must be read anew. */
export function applyDelta(fleet, delta) {
  if (delta.states) [fleet.states, fleet.normal] = [delta.states, delta.normal];
  const known = fleet.assets.length;
  for (const [place, name, group] of delta.new) {
    if (place > fleet.assets.length) return null;
    [fleet.assets[place], fleet.group[place]] = [name, group];
    fleet.index.set(name, place);
  }
  for (const [place, state, p, since, flags = 0, alarm = 0, reason = ""] of delta.rows) {
    if (place >= fleet.assets.length) return null;
    fleet.state[place] = state;
    fleet.p[place] = p;
    fleet.since_ms[place] = (delta.newest_ms ?? 0) - since;
    fleet.flags[place] = flags;
    fleet.alarm[place] = alarm;
    fleet.reason[place] = reason;
  }
  fleet.seq = delta.seq;
  return fleet.assets.length > known;
}

/** How many assets are in each state: [name, count, kind], most first, normal ones last. */
export function counts(fleet) {
  const tally = new Map();
  for (let place = 0; place < fleet.state.length; place++) {
    const known = tally.get(fleet.state[place]);
    if (known) known[1] += 1;
    else tally.set(fleet.state[place], [stateName(fleet, place), 1, kindOf(fleet, place)]);
  }
  return [...tally.values()].sort((one, other) =>
    KINDS[one[2]] - KINDS[other[2]] || other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
}

/** Every word must occur in the asset, group, state or reason; case does not matter. */
export function matcher(fleet, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return () => true;
  return (place) => {
    const said = `${fleet.assets[place]} ${groupName(fleet, place)} ${stateName(fleet, place)} ${fleet.reason[place]}`.toLowerCase();
    return words.every((word) => said.includes(word));
  };
}

/** Lower is worse: alarms by priority, then abnormal, unknown, normal. */
export function rank(fleet, place) {
  const priority = fleet.alarm[place] & 3;
  return priority ? 3 - priority : KINDS[kindOf(fleet, place)];
}

/**
 * Places of what needs eyes, worst first; normal ones only where `withNormal`. Ties by probability in tenths, the
 * earlier `since`, and the name, so that rows do not dance.
 */
export function worstFirst(fleet, { text = "", group = "", state = "", alarm = false, withNormal = false } = {}) {
  const matches = matcher(fleet, text);
  const found = [];
  for (let place = 0; place < fleet.assets.length; place++) {
    if (!withNormal && rank(fleet, place) === KINDS.normal) continue;
    if (group && groupName(fleet, place) !== group) continue;
    if (state && stateName(fleet, place) !== state) continue;
    if (alarm && !(fleet.alarm[place] & 3)) continue;
    if (matches(place)) found.push(place);
  }
  const tenth = (place) => Math.round(fleet.p[place] / 10);
  return found.sort((one, other) =>
    rank(fleet, one) - rank(fleet, other)
    || (kindOf(fleet, one) === "abnormal" ? tenth(other) - tenth(one) : 0)
    || fleet.since_ms[one] - fleet.since_ms[other]
    || (fleet.assets[one] < fleet.assets[other] ? -1 : 1));
}

/** The places of each group in the order of their names: numbers in names count as numbers, and places never jump. */
export function placesByGroup(fleet) {
  const places = fleet.groups.map(() => []);
  fleet.group.forEach((group, place) => places[group]?.push(place));
  const collator = new Intl.Collator("en", { numeric: true });
  for (const list of places) list.sort((one, other) => collator.compare(fleet.assets[one], fleet.assets[other]));
  return places;
}
