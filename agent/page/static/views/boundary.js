// Keeps the frame alive when a view cannot be drawn: a page that stands still must not look like a plant that is calm.

import { Component, html } from "../dom.js";

const AGAIN_AFTER_MS = 5_000;

/** Tries again by itself: what could not be drawn may have been an answer that the next one replaces. */
export class Boundary extends Component {
  constructor() { super(); this.state = { problem: "" }; this.againMs = 0; }

  componentDidCatch(error) {
    console.error(error);
    this.againMs = performance.now() + AGAIN_AFTER_MS;
    this.setState({ problem: String(error.message ?? error) });
  }

  render({ children }, { problem }) {
    if (!problem || performance.now() >= this.againMs) return children;
    return html`<div class="nothing-known" role="alert"><p>This view cannot be drawn, which is a mistake of this page: ${problem}. Nothing here says how the plant is.</p>
      <button type="button" onClick=${() => { this.againMs = 0; this.setState({}); }}>Try again</button> <a href="#/fleet">To the fleet</a></div>`;
  }
}
