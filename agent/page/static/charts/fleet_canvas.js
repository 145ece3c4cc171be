// One canvas per group of assets: grey normal, hatched unknown, outlined abnormal, filled with an alarm.

import { SHAPES } from "../core/alarms.js";
import { isWaiting, kindOf, priorityOf, stateName } from "../core/fleet.js";
import { Component, announce, html, token, watchColours } from "../dom.js";

const GAP = 2;

/** Where a cell is: few assets get large cells with names, ten thousand get small ones. Pure. */
export function layout(count, width, coarse) {
  const size = count <= 24 ? Math.max(84, Math.min(150, Math.floor(width / Math.max(1, Math.min(count, Math.floor(width / 84)))))) : count <= 400 ? 24 : coarse ? 24 : 12;
  const across = Math.max(1, Math.floor(width / size));
  const height = count <= 24 ? 44 : size;
  return { size, height, across, rows: Math.ceil(count / across) };
}

/** The cell under a point, or -1. Pure. */
export function cellAt({ size, height, across }, count, x, y) {
  const column = Math.floor(x / size);
  const place = Math.floor(y / height) * across + column;
  return column >= 0 && column < across && place >= 0 && place < count ? place : -1;
}

export class FleetCanvas extends Component {
  componentDidMount() {
    this.at = 0;
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    this.forget = watchColours(() => this.drawAll());
    this.resize();
  }

  componentDidUpdate() { this.draw(); }

  componentWillUnmount() {
    this.observer.disconnect();
    this.forget();
  }

  /** The width is asked for only here: to ask in every drawing would cost a layout of the whole page. */
  resize() {
    const width = this.canvas.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    this.drawAll();
  }

  drawAll() {
    this.drawn = null;
    this.draw();
  }

  /** Only cells that look different now: of ten thousand a few hundred. */
  draw() {
    const { fleet, places, dimmed } = this.props;
    if (!this.width) return;
    const pen = this.canvas.getContext("2d");
    if (!this.drawn || this.drawn.length !== places.length) this.prepare(pen, places.length);
    places.forEach((place, cell) => {
      const looks = 1 + (fleet.state[place] + 1) * 32 + fleet.alarm[place] * 2 + (dimmed?.(place) ? 1 : 0);
      if (this.drawn[cell] === looks) return;
      this.drawn[cell] = looks;
      this.drawCell(pen, this.colours, fleet, place, cell, looks % 2 === 0);
    });
    this.drawFocus(pen);
    if (!performance.getEntriesByName("fleet drawn").length) performance.mark("fleet drawn");
  }

  prepare(pen, count) {
    this.cells = layout(count, this.width, matchMedia("(pointer: coarse)").matches);
    const ratio = devicePixelRatio || 1;
    const height = this.cells.rows * this.cells.height;
    [this.canvas.width, this.canvas.height] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    this.canvas.style.height = `${height}px`;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.colours = readColours(pen);
    this.drawn = new Int32Array(count);
    this.focused = -1;
  }

  drawCell(pen, colours, fleet, place, cell, dim) {
    const { size, height, across } = this.cells;
    const [x, y, w, h] = [(cell % across) * size, Math.floor(cell / across) * height, size - GAP, height - GAP];
    const [kind, priority] = [kindOf(fleet, place), priorityOf(fleet, place)];
    pen.clearRect(x, y, size, height);
    pen.globalAlpha = dim ? 0.25 : 1;
    pen.fillStyle = priority ? colours[priority] : kind === "unknown" ? colours.hatch : kind === "normal" ? colours.normal : colours.panel;
    pen.fillRect(x, y, w, h);
    if (priority || kind !== "normal") {
      const heavy = kind === "abnormal" || isWaiting(fleet, place) ? Math.min(3, Math.max(2, size / 12)) : 1;
      pen.lineWidth = heavy;
      pen.strokeStyle = kind === "unknown" && !priority ? colours.unknown : colours.text;
      pen.strokeRect(x + heavy / 2, y + heavy / 2, w - heavy, h - heavy);
    }
    if (height > 40) this.drawWords(pen, colours, { x, y, w, h }, fleet, place);
    pen.globalAlpha = 1;
  }

  drawWords(pen, colours, { x, y, w, h }, fleet, place) {
    const priority = priorityOf(fleet, place);
    pen.save();
    pen.beginPath();
    pen.rect(x + 3, y + 2, w - 6, h - 4);
    pen.clip();
    if (kindOf(fleet, place) === "unknown" && !priority) {
      pen.fillStyle = colours.panel;
      pen.fillRect(x + 4, y + 5, w - 8, h - 10);
    }
    pen.fillStyle = priority ? colours[`on-${priority}`] : kindOf(fleet, place) === "normal" ? colours["on-normal"] : colours.text;
    pen.font = '600 12px system-ui, "DejaVu Sans", sans-serif';
    pen.fillText(`${priority ? SHAPES[priority].split(" ")[0] + " " : ""}${fleet.assets[place]}`, x + 7, y + 17);
    pen.font = '12px system-ui, "DejaVu Sans", sans-serif';
    pen.fillText(stateName(fleet, place), x + 7, y + 33);
    pen.restore();
  }

  /** Around the chosen cell while the map has the focus; the cell that had it before is drawn again. */
  drawFocus(pen) {
    const { fleet, places } = this.props;
    const wanted = document.activeElement === this.canvas ? this.at : -1;
    if (this.focused >= 0 && this.focused !== wanted && this.focused < places.length) {
      this.drawCell(pen, this.colours, fleet, places[this.focused], this.focused, false);
    }
    this.focused = wanted;
    if (wanted < 0) return;
    const { size, height, across } = this.cells;
    pen.lineWidth = 3;
    pen.strokeStyle = this.colours.focus;
    pen.strokeRect((wanted % across) * size + 1, Math.floor(wanted / across) * height + 1, size - GAP - 2, height - GAP - 2);
  }

  move(event) {
    const across = this.cells.across;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
    const { fleet, places, open } = this.props;
    if (event.key === "Enter") { event.preventDefault(); return open(fleet.assets[places[this.at]]); }
    if (!(event.key in steps)) return undefined;
    event.preventDefault();
    this.at = Math.min(places.length - 1, Math.max(0, this.at + steps[event.key]));
    this.draw();
    return announce(`${fleet.assets[places[this.at]]}: ${stateName(fleet, places[this.at])}`);
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.props.places[cellAt(this.cells, this.props.places.length, event.clientX - box.left, event.clientY - box.top)];
  }

  render({ fleet, label, open }) {
    return html`<canvas ref=${(node) => { this.canvas = node ?? this.canvas; }} tabindex="0" role="application" aria-roledescription="map of assets"
      aria-label=${`${label}. Arrow keys move, Enter opens.`} onKeyDown=${(event) => this.move(event)} onFocus=${() => this.draw()} onBlur=${() => this.draw()}
      onClick=${(event) => { const place = this.find(event); if (place !== undefined) open(fleet.assets[place]); }}
      onMouseMove=${(event) => { const place = this.find(event); this.canvas.title = place === undefined ? "" : `${fleet.assets[place]}: ${stateName(fleet, place)}`; }}></canvas>`;
  }
}

function readColours(pen) {
  const names = ["normal", "on-normal", "unknown", "panel", "text", "high", "medium", "low", "on-high", "on-medium", "on-low", "focus"];
  const colours = Object.fromEntries(names.map((name) => [name, token(`--${name}`)]));
  return { ...colours, hatch: hatch(pen, colours) };
}

function hatch(pen, colours) {
  const tile = new OffscreenCanvas(6, 6);
  const brush = tile.getContext("2d");
  brush.fillStyle = colours.panel;
  brush.fillRect(0, 0, 6, 6);
  brush.strokeStyle = colours.unknown;
  brush.lineWidth = 1.5;
  for (const shift of [-6, 0, 6]) { brush.beginPath(); brush.moveTo(shift, 6); brush.lineTo(shift + 6, 0); brush.stroke(); }
  return pen.createPattern(tile, "repeat");
}
