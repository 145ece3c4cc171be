// Health and models: how far behind, how long each stage takes, what was refused and why, which model judges.

import { html } from "../dom.js";
import { state } from "../store.js";
import { When, refine } from "./words.js";

const seconds = (value) => (value === null || value === undefined ? "–" : value < 1 ? `${(1000 * value).toPrecision(3)} ms` : `${value.toFixed(2)} s`);
const whole = (value) => (value === null || value === undefined ? "not known" : value.toLocaleString("en"));

export function HealthView() {
  const health = state.health;
  if (!health) return html`<h1>Health</h1><p>Reading …</p>`;
  return html`<div class="panel"><h1>Health</h1>${health.warning && html`<p class="refused" role="status">${health.warning}</p>`}
      <dl class="facts"><dt>feed</dt><dd>${health.feed.kind === "agent" ? "this agent" : "the topics of the fleet"}: ${health.feed.link}${health.feed.reason ? `, ${health.feed.reason}` : ""}</dd>
        <dt>lag</dt><dd>${whole(health.lag)}${health.lag === null ? "" : " records"}</dd>${health.loop_delay_max_s !== null && html`<dt>loop delay</dt><dd>${seconds(health.loop_delay_max_s)} at most, last minute</dd>`}
        <dt>open pages</dt><dd>${health.clients}</dd><dt>history</dt><dd>${whole(health.reach.events)} events, ${(health.reach.bytes / 1048576).toFixed(1)} MiB, back to <${When} at=${health.reach.oldest_ms ?? NaN} />${health.reach.dropped ? `, ${whole(health.reach.dropped)} older ones dropped` : ""}${health.reach.unreadable ? `, ${whole(health.reach.unreadable)} unreadable` : ""}</dd></dl></div>
    <div class="columns"><div><${Letters} health=${health} /></div><div><${Checks} checks=${health.checks} /><${Stages} stages=${health.stages} /><${Partitions} list=${health.partitions} /><${Counters} counters=${health.counters} /></div></div>`;
}

const Checks = ({ checks }) => checks.length > 0 && html`<section class="panel"><h2>Checks</h2><ul class="legend">${checks.map((one) => html`<li key=${one.name}>${one.ok ? "✓" : html`<strong>✕ not met:</strong>`} ${one.name}${one.detail && !one.ok ? `: ${one.detail}` : ""}</li>`)}</ul></section>`;

function Stages({ stages }) {
  if (!stages.length) return null;
  const longest = Math.max(1e-9, ...stages.map((one) => one.mean_s ?? 0));
  return html`<section class="panel"><table><caption>Stages</caption><thead><tr><th scope="col">stage</th><th scope="col" class="optional"><span class="hidden-text">mean as a bar</span></th><th scope="col" class="number">mean</th><th scope="col" class="number">99 of 100</th><th scope="col" class="number optional">count</th></tr></thead><tbody>
    ${stages.map((one) => html`<tr key=${one.stage}><th scope="row">${one.stage}</th><td class="optional"><span class="meter" aria-hidden="true"><span style=${{ width: `${(100 * (one.mean_s ?? 0)) / longest}%` }}></span></span></td><td class="number">${seconds(one.mean_s)}</td><td class="number">≤ ${seconds(one.p99_s)}</td><td class="number optional">${whole(one.count)}</td></tr>`)}</tbody></table></section>`;
}

const Partitions = ({ list }) => list.length > 0 && html`<section class="panel"><table><caption>Partitions</caption><thead><tr><th scope="col">partition</th><th scope="col" class="number">lag</th><th scope="col">newest</th></tr></thead><tbody>
  ${list.map((one) => html`<tr key=${one.partition}><th scope="row">${one.partition}</th><td class="number">${whole(one.lag)}</td><td><${When} at=${one.newest_ms ?? NaN} /></td></tr>`)}</tbody></table></section>`;

const Counters = ({ counters }) => Object.keys(counters).length > 0 && html`<section class="panel"><details><summary>Counters since the start</summary><dl class="facts">${Object.entries(counters).map(([name, value]) => html`<dt key=${name}>${name.replaceAll("_", " ")}</dt><dd>${whole(value)}</dd>`)}</dl></details></section>`;

function Letters({ health }) {
  const chosen = state.route.query.reason ?? "";
  const letters = state.letters;
  return html`<section class="panel"><h2>Dead letters by reason</h2>${!health.letters.length && (health.feed.link === "live" ? html`<p class="calm">✓ Every record could be used.</p>` : html`<p class="nothing-known">Not known whether every record could be used.</p>`)}
    ${health.letters.length > 0 && html`<table class="stack"><thead><tr><th scope="col">reason</th><th scope="col" class="number">count</th><th scope="col">latest</th></tr></thead><tbody>${health.letters.map((one) => html`<tr key=${one.reason}><th scope="row"><button type="button" aria-pressed=${chosen === one.reason ? "true" : "false"} onClick=${() => refine({ reason: chosen === one.reason ? "" : one.reason })}>${one.reason}</button></th><td class="number" data-label="count">${whole(one.count)}</td><td>${one.example}</td></tr>`)}</tbody></table>`}
    ${letters && html`<h3>The latest${chosen ? ` of ${chosen}` : ""}, with their bytes</h3>${letters.reason && html`<p class="muted">${letters.reason}</p>`}${letters.letters.slice(0, chosen ? 20 : 6).map((one) => html`<details key=${`${one.topic}${one.partition}${one.offset}`}><summary>${one.reason}: ${one.detail} <span class="muted">${one.topic}[${one.partition}] ${one.offset}${one.time_ms ? html`, <${When} at=${one.time_ms} />` : ""}</span></summary><p>${one.bytes} bytes${one.key ? `, key ${one.key}` : ""}${one.field ? `, field ${one.field}` : ""}</p><pre tabindex="0">${one.text}</pre><pre tabindex="0">${one.hex.replace(/(..)/g, "$1 ")}</pre></details>`)}
      ${letters.replay && html`<p>To send them again: <code>${letters.replay}</code></p>`}`}</section>`;
}

export function ModelsView() {
  const health = state.health;
  if (!health) return html`<h1>Models</h1><p>Reading …</p>`;
  const wanted = state.route.query.group;
  return html`<div class="panel"><h1>Models</h1><table class="stack"><thead><tr><th scope="col">group</th><th scope="col">model</th><th scope="col">digest</th><th scope="col">how</th></tr></thead><tbody>${health.models.map((one) => html`<tr key=${one.group + one.digest}><th scope="row"><a href=${`#/models?group=${encodeURIComponent(one.group)}`}>${one.group}</a></th><td>${one.name} ${one.version}</td><td><code>${one.digest.slice(0, 12)}</code></td><td>${one.source}</td></tr>`)}</tbody></table></div>
    ${health.models.filter((one) => !wanted || one.group === wanted).map((one) => html`<section key=${one.group + one.digest} class="panel"><details open=${Boolean(wanted) || health.models.length === 1}><summary><strong>Model card of ${one.name} ${one.version}</strong>, group ${one.group}</summary>${one.card ? html`<${Card} text=${one.card} />` : html`<p class="muted">No model card.</p>`}</details></section>`)}`;
}

/** Markdown as far as a card needs it: headings, lists, tables and text, as text nodes. */
function Card({ text }) {
  return html`<div class="card">${blocks(text).map((block, place) => html`<${Block} key=${place} ...${block} />`)}</div>`;
}

function Block({ kind, lines }) {
  if (kind === "heading") return html`<h3>${plain(lines[0].replace(/^#+\s*/, ""))}</h3>`;
  if (kind === "list") return html`<ul>${lines.map((line, place) => html`<li key=${place}>${plain(line.replace(/^\s*[-*]\s+/, ""))}</li>`)}</ul>`;
  if (kind === "table") return html`<div class="scroll" tabindex="0" role="region" aria-label="table of the card"><table><tbody>${lines.filter((line) => !/^\|[\s:|-]+\|$/.test(line)).map((line, row) => html`<tr key=${row}>${line.replace(/^\||\|$/g, "").split("|").map((cell, place) => (row === 0 ? html`<th key=${place} scope="col">${plain(cell.trim())}</th>` : html`<td key=${place}>${plain(cell.trim())}</td>`))}</tr>`)}</tbody></table></div>`;
  return html`<p>${plain(lines.join(" "))}</p>`;
}

const plain = (text) => text.replace(/!\[[^\]]*\]\([^)]*\)/g, "").replace(/\*\*|`/g, "");
const kindOfLine = (line) => (/^#/.test(line) ? "heading" : /^\s*[-*]\s/.test(line) ? "list" : /^\|/.test(line) ? "table" : line.trim() ? "text" : "");

export function blocks(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const [kind, last] = [kindOfLine(line), found[found.length - 1]];
    if (last && last.kind === kind && kind !== "heading") last.lines.push(line);
    else found.push({ kind, lines: [line] });
  }
  return found.filter((block) => block.kind);
}
