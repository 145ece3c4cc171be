// Times and durations as people write them. Pure: "now" is always handed in, in the server's milliseconds.

export const ms = (iso) => (iso === null || iso === undefined ? NaN : Date.parse(iso));

/** 9.6 s, 3 min, 2 h 5 min, 4 d: at most two units, because an operator compares sizes and not digits. */
export function duration(milliseconds) {
  if (!Number.isFinite(milliseconds)) return "–";
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1)} s`;
  if (seconds < 90) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d`;
}

const pad = (number, width = 2) => String(number).padStart(width, "0");

/** 10:49:28.8 in UTC or in the browser's zone; tenths only where asked for. */
export function clock(milliseconds, { utc = true, tenths = false } = {}) {
  if (!Number.isFinite(milliseconds)) return "–";
  const date = new Date(milliseconds);
  const parts = utc
    ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
    : [date.getHours(), date.getMinutes(), date.getSeconds()];
  const text = parts.map((part) => pad(part)).join(":");
  return tenths ? `${text}.${Math.floor(date.getUTCMilliseconds() / 100)}` : text;
}

/** With the date where it is not the day of `now`. */
export function moment(milliseconds, now, options = {}) {
  if (!Number.isFinite(milliseconds)) return "–";
  const utc = options.utc ?? true;
  const same = day(milliseconds, utc) === day(now, utc);
  return same ? clock(milliseconds, options) : `${day(milliseconds, utc)} ${clock(milliseconds, options)}`;
}

function day(milliseconds, utc) {
  const date = new Date(milliseconds);
  if (!Number.isFinite(date.getTime())) return "";
  return utc
    ? date.toISOString().slice(0, 10)
    : `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}
