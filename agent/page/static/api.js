// Every request of the page, and the stream. Answers are JSON by docs/contracts/page.openapi.json; errors become ApiError.

const TIMEOUT_MS = 15_000;

export class ApiError extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS), ...options });
  } catch (error) {
    throw new ApiError(0, error.name === "TimeoutError" ? "no answer within 15 s" : "the server cannot be reached");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new ApiError(answer.status, body?.error ?? `the server answered ${answer.status}`);
  if (body === null) throw new ApiError(answer.status, "the server's answer is not JSON");
  return body;
}

const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value !== undefined && value !== "")).toString();
const get = (path, values = {}) => ask(Object.keys(values).length ? `${path}?${query(values)}` : path);
const send = (method, path, body) => ask(path, {
  method, headers: { "Content-Type": "application/json", "X-Anchormoe": "1" }, body: JSON.stringify(body),
});

export const api = {
  session: () => get("/api/session"),
  login: (token) => send("POST", "/session", { token }),
  logout: () => send("DELETE", "/session", {}),
  fleet: () => get("/api/fleet"),
  asset: (id) => get("/api/asset", { id }),
  timeline: (asset, px) => get("/api/timeline", { asset, px }),
  events: (values) => get("/api/events", values),
  event: (id) => get("/api/event", { id }),
  rebuild: (id) => get("/api/rebuild", { id }),
  period: (from, to) => get("/api/period", { from, to }),
  trend: () => get("/api/trend"),
  alarms: () => get("/api/alarms"),
  command: (verb, body) => send("POST", `/api/alarms/${verb}`, body),
  health: () => get("/api/health"),
  letters: (reason) => get("/api/letters", { reason }),
};

const KINDS = ["d", "e", "s", "a", "o", "h", "reset", "bye"];

/** `on(kind, data)` for each message, `onOpen()`, `onEnd()` when it broke; the caller decides when to try again. */
export function openStream({ after, asset }, { on, onOpen, onEnd }) {
  const source = new EventSource(`/api/stream?${query({ after, asset })}`);
  source.onopen = onOpen;
  source.onerror = () => { source.close(); onEnd(); };
  for (const kind of KINDS) {
    source.addEventListener(kind, (message) => {
      let data;
      try { data = JSON.parse(message.data); } catch { return; }
      on(kind, data);
    });
  }
  return () => source.close();
}
