// One tone per new high alarm: off until somebody switches it on, because browsers want a click, and never a primary alarm.

import { state } from "./store.js";

let context = null;

export function beep() {
  context ??= new AudioContext();
  context.resume();
  const [tone, volume] = [context.createOscillator(), context.createGain()];
  tone.frequency.value = 880;
  volume.gain.setValueAtTime(0.2, context.currentTime);
  volume.gain.exponentialRampToValueAtTime(0.001, context.currentTime + 0.6);
  tone.connect(volume).connect(context.destination);
  tone.start();
  tone.stop(context.currentTime + 0.6);
}

/** A browser lets no page sound before somebody has touched it: after a reload nobody may rely on the tone. */
export const toneWaits = () => state.choices.sound && navigator.userActivation?.hasBeenActive === false;

export const alarmTone = () => { if (state.choices.sound) beep(); };
