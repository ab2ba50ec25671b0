"use strict";
// The formula of lab/model.py, with the constants that the page carries.
const model = JSON.parse(document.getElementById("model").textContent);
const SEGMENT = 1448, FIRST_WINDOW = 10 * SEGMENT;

function steadyRate(c, payload, rtt, loss, rateBps) {
  rtt = Math.max(rtt, 0.0001);
  let rate = c.processor_bytes_per_s;
  if (rateBps) rate = Math.min(rate, rateBps / 8 * payload * (1 - loss) * c.share);
  rate /= 1 + c.loss_cost * loss + c.loss_rtt_cost * loss * rtt;
  if (c.window_bytes) rate = Math.min(rate, c.window_bytes / rtt);
  if (c.strength && loss > 0) {
    const window = Math.max(1.22 / Math.sqrt(loss), 1.054 * Math.pow(rtt / loss, 0.75));
    rate = Math.min(rate, c.strength * window * SEGMENT / rtt);
  }
  return rate;
}

function copySeconds(c, payload, rtt, loss, rateBps, size) {
  const rate = steadyRate(c, payload, rtt, loss, rateBps);
  const waits = c.rtts * rtt * (1 + c.loss_rtts * loss);
  return c.fixed_s + waits + c.start * Math.log2(1 + rate * rtt / FIRST_WINDOW) * rtt + size / rate;
}

const UNITS = { rtt: { us: 1e-6, ms: 1e-3, s: 1 }, loss: { "%": 0.01 }, rate: { kbit: 1e3, mbit: 1e6, gbit: 1e9 },
  size: { "": 1, k: 1024, m: 1048576, g: 1073741824, t: 1099511627776, kib: 1024, mib: 1048576, gib: 1073741824,
    tib: 1099511627776, kb: 1e3, mb: 1e6, gb: 1e9, tb: 1e12 } };

function read(name) {
  const input = document.getElementById(name), words = input.value.trim().toLowerCase();
  if (name === "rate" && (words === "" || words === "none")) return 0;
  const match = /^(\d+(?:\.\d+)?)\s*([a-z%]*)$/.exec(words), factor = match && UNITS[name][match[2]];
  const value = factor ? match[1] * factor : NaN;
  const good = value >= 0 && !(name === "loss" && value > 0.5) && !(name === "size" && value === 0);
  input.setCustomValidity(good ? "" : "such as " + input.placeholder);
  return good ? value : NaN;
}

function show(seconds) {
  if (seconds < 120) return seconds.toFixed(1) + " s";
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return minutes + " min " + Math.round(seconds % 60) + " s";
  const hours = seconds / 3600;
  return hours < 72 ? hours.toFixed(1) + " hours" : (hours / 24).toFixed(1) + " days";
}

function calculate() {
  const [rtt, loss, rate, size] = ["rtt", "loss", "rate", "size"].map(read);
  const rows = document.getElementById("answer"), valid = ![rtt, loss, rate, size].some(Number.isNaN);
  rows.textContent = "";
  document.getElementById("fault").hidden = valid;
  if (!valid) return;
  let first = 0;
  for (const one of Object.values(model.programs)) {
    const seconds = copySeconds(one.constants, one.payload, rtt, loss, rate, size);
    first = first || seconds;
    const error = one.held_out.median_percent, row = rows.insertRow();
    for (const cell of [one.title, show(seconds),
      (steadyRate(one.constants, one.payload, rtt, loss, rate) / 1e6).toFixed(1) + " MB/s",
      one === model.programs.petrel ? "" : "x " + (seconds / first).toFixed(1),
      error === undefined ? "?" : error + " %"]) row.insertCell().textContent = cell;
  }
}

document.getElementById("calculator").addEventListener("input", calculate);
calculate();

// A link to a raw line opens the list that holds it.
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  const list = target && target.closest("details");
  if (list) { list.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", openTarget);
openTarget();
