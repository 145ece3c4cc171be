// Which steps of the connection follow each other: how long to wait before the next try, when to close. Pure.

export const HIDDEN_CLOSE_MS = 30_000;
export const POLL_MS = 5_000;

/** 0.5 s, 1, 2, 4, at most 8, with ±20 % so that a hundred pages do not come back in the same moment. */
export function retryDelay(failures, random = 0.5) {
  const plain = Math.min(8_000, 500 * 2 ** Math.min(10, Math.max(0, failures - 1)));
  return Math.round(plain * (0.8 + 0.4 * random));
}

/** A refusal that waiting cannot mend: 401 asks for a log-in, 429 or 503 for polling instead of a stream. */
export function afterRefusal(status) {
  if (status === 401 || status === 403) return "login";
  return status === 429 || status === 503 ? "poll" : "retry";
}
