// Whether what is shown can be believed: live, stale, lost or never connected. Pure.

export const HEARTBEATS_MISSED = 3;
const AHEAD_MS = 5_000;

/**
 * `link`: {ever, open, heardMs, heartbeatMs}, browser's monotonic clock; `data`: {newestMs, agentsMs, staleAfterMs}, server's
 * clock; `nowMs` on the first clock, `serverNowMs` on the second.
 * "lost" goes before "stale": without a connection nobody knows how old the data really is.
 * `agentsMs`: when the agents last read on; where only changes are published, a calm plant says nothing for hours.
 * `knownMs`: until when the states are known; `readOn`: not by a new state, but because the agents read on.
 * `aheadMs`: the plant's clock runs before the server's, as a simulation's does that runs faster than real time.
 */
export function freshness(link, data, nowMs, serverNowMs) {
  if (!link.ever) return { kind: "connecting", forMs: nowMs - link.heardMs };
  const silence = nowMs - link.heardMs;
  if (!link.open && silence > link.heartbeatMs / 2) return { kind: "lost", forMs: silence };
  if (silence > HEARTBEATS_MISSED * link.heartbeatMs) return { kind: "lost", forMs: silence };
  if (!Number.isFinite(data.newestMs)) return { kind: "empty", forMs: silence };
  const age = serverNowMs - data.newestMs;
  if (age < -AHEAD_MS) return { kind: "live", forMs: 0, aheadMs: -age, knownMs: data.newestMs };
  const readMs = data.agentsMs ?? -Infinity;
  const knownMs = Math.max(data.newestMs, readMs);
  const forMs = Math.max(0, serverNowMs - knownMs);
  return { kind: forMs > data.staleAfterMs ? "stale" : "live", forMs, knownMs, readOn: readMs > data.newestMs };
}

/** The difference server − browser, from the message that took the shortest way: the largest lower bound. */
export function clockOffset(previous, serverMs, browserMs) {
  const offset = serverMs - browserMs;
  return previous === null || Math.abs(offset - previous) > 5_000 ? offset : Math.max(previous, offset);
}
