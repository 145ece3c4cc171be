// Every state of the page is a fragment: #/asset/pump-2?at=…  Fragments are never sent to a server or a proxy log. Pure.

const VIEWS = ["fleet", "asset", "evidence", "alarms", "shelf", "health", "models", "help"];

const CHECKS = { at: (value) => Number.isFinite(Date.parse(value)), from: isTime, to: isTime };

function isTime(value) { return /^\d{1,16}$/.test(value) && Number(value) <= 8.64e15; }

/** {view, id, query}; what is not known leads to the fleet, never to an empty page; a time that is none is left out. */
export function parseRoute(fragment) {
  const [path, search = ""] = String(fragment).replace(/^#?\/?/, "").split("?", 2);
  const [view, ...rest] = path.split("/");
  const query = Object.fromEntries([...new URLSearchParams(search)].filter(([name, value]) => CHECKS[name]?.(value) ?? true));
  if (!VIEWS.includes(view)) return { view: "fleet", id: "", query };
  return { view, id: decode(rest.join("/")), query };
}

/** Empty values are left out, so that two ways to the same state give the same address. */
export function formatRoute({ view, id = "", query = {} }) {
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const search = new URLSearchParams(kept).toString();
  return `#/${view}${id ? "/" + encodeURIComponent(id) : ""}${search ? "?" + search : ""}`;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
