// Help, and the log-in form.

import { api } from "../api.js";
import { Component, html } from "../dom.js";
import { choose, state } from "../store.js";
import { beep } from "../sound.js";
import { start } from "../sync.js";

export const KEYS = [["/", "search"], ["j, k", "next, previous row"], ["Enter", "open the row"], ["Esc", "back to live, or up one level"], ["Space", "freeze"], ["a", "acknowledge the chosen alarms, or that of the row"], ["s", "shelve the chosen alarms, or that of the row"], ["x", "choose the alarm of the row"], ["w", "why not the runner-up"], ["t", "go to a moment of the past (asset)"], ["← →", "read values in a chart, move in the map of assets"], ["g", "to the fleet"], ["l", "to the alarms"], ["?", "this page"]];

export function HelpView() {
  return html`<div class="panel"><h1>Help</h1><p>Grey is normal. A frame is not normal, hatching is unknown, colour is an alarm. A hatched page has no connection, a lined page has old data: neither means that all is well.</p>
    <h2>Keys</h2><p><label><input type="checkbox" checked=${state.choices.keys} onChange=${(event) => choose("keys", event.target.checked)} />Single keys are on</label></p>
    <table><thead><tr><th scope="col">key</th><th scope="col">does</th></tr></thead><tbody>${KEYS.map(([key, text]) => html`<tr key=${key}><th scope="row"><kbd>${key}</kbd></th><td>${text}</td></tr>`)}</tbody></table>
    <h2>Sound</h2><p><label><input type="checkbox" checked=${state.choices.sound} onChange=${(event) => choose("sound", event.target.checked)} />A tone for every new high alarm</label> <button type="button" onClick=${beep}>Test the tone</button> Not a primary alarm.</p>
    <h2>Words</h2><dl class="facts"><dt>sure</dt><dd>the calibrated probability of the most likely class</dd><dt>score</dt><dd>what the evidence adds up to, in logits; the probabilities are the softmax of the scores</dd>
      <dt>context</dt><dd>what the model adds without a place in time</dd><dt>band</dt><dd>where nine of ten values of the normal class lay in the training data</dd><dt>judged again</dt><dd>the window rebuilt from the log and given to the same model</dd></dl>
    <p>Every address of this page can be sent to a colleague: it leads to the same view.</p></div>`;
}

export class LoginView extends Component {
  constructor() { super(); this.state = { token: "", error: "", busy: false }; }

  componentDidMount() { this.field.focus(); }

  async submit(event) {
    event.preventDefault();
    this.setState({ busy: true, error: "" });
    try {
      await api.login(this.state.token);
      this.setState({ token: "" });
      await start();
    } catch (error) {
      this.setState({ error: error.status === 429 ? "Too many wrong tokens; wait a minute." : error.message, busy: false });
    }
  }

  render(_, { token, error, busy }) {
    return html`<main id="content"><form class="panel login" onSubmit=${(event) => this.submit(event)}><h1>Log in</h1><p>This plant is shown to users only. <code>anchormoe-agent users add</code> gives a token.</p>
      <label class="field">Token<input type="password" ref=${(node) => { this.field = node ?? this.field; }} autocomplete="current-password" value=${token} onInput=${(event) => this.setState({ token: event.target.value })} /></label>
      ${error && html`<p class="refused" role="alert">${error}</p>`}<button type="submit" disabled=${busy || !token}>Log in</button></form></main>`;
  }
}
