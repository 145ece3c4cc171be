// A short piece of a signal as a line: a prototype, or a segment beside the one it resembles.

import { html } from "../dom.js";

const points = (values, least, most, width, height) => {
  const step = values.length > 1 ? (width - 4) / (values.length - 1) : 0;
  return values.map((value, place) => (value === null ? null : `${(2 + place * step).toFixed(1)},${(height - 3 - ((value - least) / (most - least || 1)) * (height - 6)).toFixed(1)}`)).filter(Boolean).join(" ");
};

export function Shape({ values, over = [], label, caption, wide = false }) {
  const [width, height] = wide ? [420, 90] : [140, 40];
  const every = [...values, ...over].filter((value) => value !== null);
  const [least, most] = [Math.min(...every), Math.max(...every)];
  return html`<figure class="shape"><svg viewBox=${`0 0 ${width} ${height}`} width=${width} height=${height} role="img" aria-label=${label}>
    <polyline points=${points(values, least, most, width, height)} fill="none" class="axis" stroke-width="1.5" stroke-dasharray=${over.length ? "2 3" : undefined} />
    ${over.length > 0 && html`<polyline points=${points(over, least, most, width, height)} fill="none" class="shape-own" />`}</svg><figcaption class="muted">${caption}</figcaption></figure>`;
}
