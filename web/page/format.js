// Words and numbers for people.
import { glyph, h } from "./dom.js";

// states are the states of a server: mark, word, and how loud it is.
export const states = {
	ready: ["●", "ready", "good"],
	connecting: ["◐", "connecting", "busy"],
	discovering: ["◐", "discovering", "busy"],
	closing: ["◌", "closing", "busy"],
	stopping: ["◌", "stopping", "busy"],
	unregistered: ["○", "unregistered", "off"],
	backoff: ["↻", "backoff", "warn"],
	parked: ["◷", "parked", "warn"],
	unauthorized: ["◇", "unauthorized", "bad"],
	evicted: ["✗", "evicted", "bad"],
	waiting: ["◔", "waiting", "busy"],
	asleep: ["☾", "asleep", "off"],
	resting: ["☾", "resting", "off"],
	stopped: ["■", "stopped", "off"],
	// Of groups only.
	starting: ["◐", "starting", "busy"],
	ending: ["◌", "ending", "busy"],
	blocked: ["■", "blocked", "warn"],
	failed: ["✗", "failed", "bad"],
	"given up": ["✗", "given up", "bad"],
};

// rests tells whether a server starts when it is wanted.
export function rests(s) { return s.state === "asleep" || s.state === "resting"; }

export function stateOf(name) { return states[name] ?? ["○", name || "new", "off"]; }

export function badge(name) {
	const [mark, word, tone] = stateOf(name);
	return tell(mark, tone, word);
}

export function tell(mark, tone, word) { return h("span", "state " + tone, glyph(mark), word); }

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function count(n) { return n >= 100000 ? short.format(n) : number.format(n); }
export function plural(n, noun) { return count(n) + " " + noun + (n === 1 ? "" : "s"); }
export function tokens(n) { return "≈ " + short.format(n).toLowerCase() + (n === 1 ? " token" : " tokens"); }

// troubles names both counts of calls that went wrong, as far as they are not 0.
export function troubles(s) {
	return [s.calls.failed ? count(s.calls.failed) + " failed" : null, s.totals?.toolErrors ? plural(s.totals.toolErrors, "tool error") : null].filter(Boolean).join(", ");
}

// fits tells whether texts have all words of a filter.
export function fits(wanted, ...texts) {
	const text = texts.join(" ").toLowerCase();
	return wanted.split(/\s+/).every((word) => text.includes(word));
}

// span describes a duration in milliseconds with two units at most.
export function span(ms) {
	const s = Math.max(0, ms) / 1000;
	if (s < 60) return Math.floor(s) + " s";
	const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
	const i = parts.findIndex(([size]) => s >= size);
	const [size, unit] = parts[i], [below, small] = parts[i + 1];
	const rest = Math.floor((s % size) / below);
	return Math.floor(s / size) + " " + unit + (rest ? " " + rest + " " + small : "");
}

export function took(ns) {
	if (!ns) return "–";
	if (ns >= 6e10) return span(ns / 1e6);
	const [size, unit] = ns < 1e6 ? [1e3, "µs"] : ns < 1e9 ? [1e6, "ms"] : [1e9, "s"];
	const n = ns / size;
	return (n < 10 ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)) + " " + unit;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// at shows a time of day, after the day if that is not today.
export function at(time) {
	const d = new Date(time);
	const today = d.toDateString() === new Date(serverNow()).toDateString();
	return h("time", { datetime: time, title: d.toISOString(), class: "clock" }, today ? null : day.format(d) + " ", clock.format(d));
}

// skew is how far the clock of the server is ahead of that of the browser, in ms.
let skew = 0;
export function setClock(serverNow) { skew = Date.parse(serverNow) - Date.now(); }
export function serverNow() { return Date.now() + skew; }

// age and until show a time that passes; tick renews their texts.
export function age(time) { return moving("data-since", time); }
export function until(time) { return moving("data-until", time); }

function moving(attribute, time) {
	const el = h("time", { datetime: time, [attribute]: Date.parse(time) });
	tickOne(el);
	return el;
}

function tickOne(el) {
	const { since, until } = el.dataset;
	let text;
	if (since) text = span(serverNow() - since);
	else {
		const left = until - serverNow();
		text = left <= 0 ? "now" : left < 10000 ? "in " + (left / 1000).toFixed(1) + " s" : "in " + span(left);
	}
	if (el.textContent !== text) el.textContent = text;
}

export function tick(root) { for (const el of root.querySelectorAll("[data-since],[data-until]")) tickOne(el); }
export function tickCountdowns(root) { for (const el of root.querySelectorAll("[data-until]")) tickOne(el); }
