// Exact addition of published decimals: the page adds the numbers as they were written, not as binary fractions. Pure.

/** As many decimals as an event publishes: see ScoreScale in agent/events/numbers.py. */
const DIGITS = 22;

/** A JSON number as an integer of 1e-22; null where it is not a finite number or needs more digits. */
export function scaled(number) {
  if (typeof number !== "number" || !Number.isFinite(number)) return null;
  const [mantissa, exponent = "0"] = String(number).toLowerCase().split("e");
  const negative = mantissa.startsWith("-");
  const [whole, fraction = ""] = mantissa.replace("-", "").split(".");
  const shift = DIGITS + Number(exponent) - fraction.length;
  const digits = BigInt(whole + fraction);
  if (shift < 0 && digits % 10n ** BigInt(-shift) !== 0n) return null;
  const value = shift < 0 ? digits / 10n ** BigInt(-shift) : digits * 10n ** BigInt(shift);
  return negative ? -value : value;
}

/** The integer of 1e-22 as a decimal with `places` digits, rounded half away from zero, with its sign. */
export function decimalText(value, places = 5) {
  const unit = 10n ** BigInt(DIGITS - places);
  const size = ((value < 0n ? -value : value) + unit / 2n) / unit;
  const text = size.toString().padStart(places + 1, "0");
  const sign = value < 0n && size > 0n ? "−" : "";
  return `${sign}${text.slice(0, text.length - places)}${places ? "." + text.slice(-places) : ""}`;
}

/** What the terms add up to, and by how much that misses `total`: {exact, total, difference}, as integers of 1e-22. */
export function addUp(terms, total) {
  const values = terms.map(scaled);
  const claimed = scaled(total);
  if (claimed === null || values.includes(null)) return null;
  const exact = values.reduce((sum, value) => sum + value, 0n);
  return { exact, total: claimed, difference: exact - claimed };
}
