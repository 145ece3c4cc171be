// Every state of the page is a fragment: #/asset/pump-2?at=…  Fragments are never sent to a server or a proxy log. Pure.

const VIEWS = ["fleet", "asset", "evidence", "alarms", "shelf", "health", "models", "help"];

/** {view, id, query}; what is not known leads to the fleet, never to an empty page. */
export function parseRoute(fragment) {
  const [path, search = ""] = String(fragment).replace(/^#?\/?/, "").split("?", 2);
  const [view, ...rest] = path.split("/");
  const query = Object.fromEntries(new URLSearchParams(search));
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
