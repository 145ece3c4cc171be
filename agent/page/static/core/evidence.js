// What an event's evidence says: rows of the waterfall, its sum, cells of the map, the margin to the runner-up. Pure.

import { addUp } from "./decimal.js";
import { ms } from "./times.js";

/** context, every span, remainder: each with `from` and `to`, where its bar begins and ends on the scale of the score. */
export function waterfall(evidence, total, order = "time") {
  const spans = evidence.spans.map((span, index) => ({ kind: "span", key: `span-${index}`, index, span, value: span.contribution }));
  const byTime = (one, other) => ms(one.span.start) - ms(other.span.start) || one.index - other.index;
  const bySize = (one, other) => Math.abs(other.value) - Math.abs(one.value) || one.index - other.index;
  spans.sort(order === "size" ? bySize : byTime);
  const rows = [
    { kind: "context", key: "context", value: evidence.context },
    ...spans,
    { kind: "remainder", key: "remainder", value: evidence.remainder },
  ];
  let at = 0;
  for (const row of rows) {
    row.from = at;
    at += row.value;
    row.to = at;
  }
  return { rows, sum: addUp(rows.map((row) => row.value), total), total };
}

/** Both sums that an event promises: over time and over channels; null where the event has no such numbers. */
export function sums(evidence, logit) {
  const channels = evidence.channels.map((one) => one.contribution).filter((value) => value !== null);
  return {
    spans: waterfall(evidence, logit).sum,
    channels: addUp([evidence.context, ...channels, evidence.other_channels ?? 0], logit),
  };
}

/** The score that the evidence explains: that of its class in the class table. */
export function logitOf(event) {
  const row = (event.classes ?? []).find((one) => one.class === event.evidence?.class);
  return row ? row.logit : null;
}

/** Least and greatest value on the way of the bars, so that the scale shows all of them and zero. */
export function extent(rows) {
  const points = rows.flatMap((row) => [row.from, row.to]);
  return [Math.min(0, ...points), Math.max(0, ...points)];
}

/** One rectangle per span and channel: {channel, start, end, value, share}; `channels` gives the order of the rows. */
export function mapCells(event, channels) {
  const [start, end] = [ms(event.window.start), ms(event.window.end)];
  const strongest = Math.max(1e-12, ...event.evidence.spans.map((span) => Math.abs(span.contribution)));
  return event.evidence.spans.flatMap((span) =>
    span.channels.filter((name) => channels.includes(name)).map((channel) => ({
      channel,
      row: channels.indexOf(channel),
      left: (ms(span.start) - start) / (end - start),
      right: (ms(span.end) - start) / (end - start),
      value: span.contribution,
      strength: Math.abs(span.contribution) / strongest,
      together: span.channels.length > 1,
      span,
    })),
  );
}

/** How many times as likely A was as X: the published probabilities are the softmax of the published scores. */
export const timesAsLikely = (margin) => Math.exp(margin);

/** "9.4 times", "1,300 times", "more than a million times". */
export function timesText(margin) {
  const times = timesAsLikely(margin);
  if (times >= 1e6) return "more than a million times";
  if (times >= 100) return `${Math.round(Number(times.toPrecision(2))).toLocaleString("en")} times`;
  return `${times.toFixed(1)} times`;
}

const WORDS = {
  above: "above normal", below: "below normal", rising: "rising", falling: "falling",
  wider: "varies more than normal", narrower: "varies less than normal", within: "within its normal range",
};
const ARROWS = { above: "↑", below: "↓", rising: "↗", falling: "↘", wider: "↕", narrower: "⇕", within: "≈" };

export const directionText = (direction) => WORDS[direction] ?? "not comparable";
export const arrow = (direction) => ARROWS[direction] ?? "";

/** Four significant digits, six of large values, without an exponent where people would not write one: 101325 Pa. */
export function valueText(value, unit = "") {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const plain = size === 0 || (size >= 1e-4 && size < 1e9);
  const text = plain ? String(Number(value.toPrecision(size < 1e4 ? 4 : 6))) : value.toExponential(2).replace("e+", "e");
  return `${text.replace("-", "−")}${unit && unit !== "1" ? " " + unit : ""}`;
}

const AXIS_LETTERS = 8;

/** Ticks of an axis as texts, each as exact as the step between them and short enough to be whole. */
export function tickTexts(ticks) {
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(ticks[0]) || 1;
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const exact = (tick) => (decimals > 20 ? tick.toExponential() : tick.toFixed(halves(step, decimals) ? decimals + 1 : decimals));
  const plain = ticks.map(exact);
  const greatest = Math.max(...ticks.map(Math.abs), step);
  const digits = Math.min(20, Math.max(0, Math.ceil(Math.log10(greatest / step) - 1e-9)) + 1);
  const texts = plain.every((text) => text.length <= AXIS_LETTERS) ? plain : ticks.map((tick) => (tick === 0 ? "0" : short(tick.toExponential(digits))));
  return texts.map((text) => text.replace(/-/g, "−"));
}

/** Whether a step such as 2.5 needs one digit more than its size says. */
const halves = (step, decimals) => Math.abs(step * 10 ** decimals - Math.round(step * 10 ** decimals)) > 1e-6;

const short = (text) => text.replace(/\.?0*e\+?/, "e");

/** +1.23 or −1.23: a contribution always carries its sign. */
export function signed(value, places = 2) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  const text = Math.abs(value).toFixed(places);
  return `${value < 0 ? "−" : "+"}${text}`;
}

/** How sure the model is: never 100 %, also where the probability came rounded. */
export const sureText = (share) => (share > 0.99 ? "> 99 %" : percent(share));

/** What is set against normal: the spread where the signal varies otherwise than normal, else the value. */
export function comparedTexts(channel) {
  const { normal, unit } = channel;
  const spreads = ["wider", "narrower"].includes(channel.direction) && [channel.deviation, normal?.deviation].every(Number.isFinite);
  if (spreads) return { value: `±${valueText(channel.deviation, unit)}`, normal: `±${valueText(normal.deviation, unit)}` };
  return { value: valueText(channel.mean, unit), normal: normal ? `${valueText(normal.low)} … ${valueText(normal.high, unit)}` : "–" };
}

/** The channels that carry most evidence first; the others in their order. */
export function strongestFirst(names, evidence) {
  const place = new Map((evidence?.channels ?? []).map((one, at) => [one.name, at]));
  return [...names].sort((one, other) => (place.get(one) ?? names.length) - (place.get(other) ?? names.length));
}

/** As the sentences say it: nothing is quite certain, and nothing quite impossible. */
export function percent(share) {
  if (typeof share !== "number" || !Number.isFinite(share)) return "–";
  if (share > 0.99 && share < 1) return "> 99 %";
  return share < 0.01 && share > 0 ? "< 1 %" : `${Math.round(share * 100)} %`;
}
