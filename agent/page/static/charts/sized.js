// Gives a drawing the width that it has on the screen, so that its words keep their size on a phone.

import { Component, html } from "../dom.js";

export class Sized extends Component {
  constructor() { super(); this.state = { width: 0 }; }

  componentDidMount() {
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.box);
    this.measure();
  }

  componentWillUnmount() { this.observer.disconnect(); }

  measure() {
    const width = Math.floor(this.box.clientWidth);
    if (width !== this.state.width) this.setState({ width });
  }

  render({ draw }, { width }) {
    return html`<div class="sized" ref=${(node) => { this.box = node ?? this.box; }}>${width > 0 && draw(width)}</div>`;
  }
}
