// preact and htm, bound once. Names from outside become text nodes; nothing here ever parses markup.

import { Component, h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.module.js";

export const html = htm.bind(h);
export { Component, render };

let politeTimer = 0;

/** Says something to a screen reader: politely at most every 5 s, or at once where a person must act. */
export function announce(text, urgent = false) {
  if (urgent) {
    document.getElementById("assertive").textContent = text;
    return;
  }
  clearTimeout(politeTimer);
  politeTimer = setTimeout(() => { document.getElementById("polite").textContent = text; }, 300);
}

let tokens = new Map();
const onScheme = new Set();

/** A colour of the style sheet as the canvas needs it; system colours included. Kept: asking costs a new layout. */
export function token(name) {
  if (!tokens.has(name)) tokens.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return tokens.get(name);
}

/** Calls back when the colours change; returns how to stop. */
export function watchColours(redraw) {
  onScheme.add(redraw);
  return () => onScheme.delete(redraw);
}

for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)", "(prefers-contrast: more)"]) {
  matchMedia(query).addEventListener("change", () => { tokens = new Map(); onScheme.forEach((redraw) => redraw()); });
}
