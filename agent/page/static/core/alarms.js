// The order, the words and the limits of alarms, the same as in `anchormoe-agent alarm list`. Pure.

import { ms } from "./times.js";

const STATES = ["unacknowledged", "returned", "acknowledged", "latched", "shelved", "suppressed", "out_of_service", "normal"];
const PRIORITIES = ["high", "medium", "low"];
const HIDDEN = ["shelved", "suppressed", "out_of_service"];

export const SHAPES = { high: "■ H", medium: "▲ M", low: "● L" };
export const MINUTE_MS = 60_000;
export const WARN_BEFORE_MS = 15 * MINUTE_MS;
export const PRESETS = [
  { name: "15 minutes", forMs: 15 * MINUTE_MS },
  { name: "1 hour", forMs: 60 * MINUTE_MS },
  { name: "8 hours", forMs: 480 * MINUTE_MS },
];

const SHIFTS_AT = [6, 14, 22];

/** The next change of shift, at 6, 14 and 22 h of the browser's zone, also in a night in which its clock is changed. */
export function endOfShift(now) {
  const date = new Date(now);
  const next = SHIFTS_AT.find((hour) => hour > date.getHours()) ?? 24 + SHIFTS_AT[0];
  return new Date(date.getFullYear(), date.getMonth(), date.getDate(), next).getTime();
}

const place = (list, value) => (list.includes(value) ? list.indexOf(value) : list.length);

/** By state, priority, time and id. */
export function byUrgency(one, other) {
  const difference = place(STATES, one.state) - place(STATES, other.state)
    || place(PRIORITIES, one.priority) - place(PRIORITIES, other.priority);
  if (difference) return difference;
  const [first, second] = [one.raised ?? "", other.raised ?? ""];
  if (first !== second) return first < second ? -1 : 1;
  return one.alarm < other.alarm ? -1 : one.alarm > other.alarm ? 1 : 0;
}

export const shown = (alarms) => alarms.filter((one) => !HIDDEN.includes(one.state) && one.state !== "normal").sort(byUrgency);
export const hidden = (alarms) => alarms.filter((one) => HIDDEN.includes(one.state)).sort(byUrgency);
export const waiting = (alarms) => shown(alarms).filter((one) => !one.acknowledged && !one.held);

/** What is left of `respond_within`, in milliseconds; NaN where no response is due. Negative: overdue. */
export function timeLeft(alarm, now) {
  const within = alarm.rationale?.respond_within_s;
  if (within === undefined || within === null || !alarm.active || alarm.acknowledged) return NaN;
  return ms(alarm.raised) + within * 1000 - now;
}

/** "", "soon" (inside 15 minutes) or "over": what the shelf must warn about. */
export function endOfShelving(alarm, now) {
  const until = ms(alarm.shelved?.until);
  if (!Number.isFinite(until)) return "";
  if (until <= now) return "over";
  return until - now <= WARN_BEFORE_MS ? "soon" : "";
}

/** Why a command cannot be sent, in words; an empty string when it can. */
export function refuseEarly(verb, { why = "", until = NaN, now, maxMs = Infinity }) {
  if ((verb === "comment" || verb === "out-of-service") && !why.trim()) return "This needs a reason.";
  if (verb !== "shelve") return "";
  if (!why.trim()) return "Shelving needs a reason: the next shift must know why.";
  if (!Number.isFinite(until)) return "Shelving needs an end.";
  if (until <= now) return "The end must lie in the future.";
  return until - now > maxMs ? `The longest shelving here is ${Math.round(maxMs / MINUTE_MS)} minutes.` : "";
}
