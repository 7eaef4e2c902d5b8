// What needs attention, the supervision tree, and the servers with their history.
import { fill, glyph, h, head, list } from "./dom.js";
import { age, badge, count, plural, rests, serverNow, span, stateOf, tell, tokens, troubles, until } from "./format.js";
import { sortHead } from "./table.js";
import { changed, cpu, load, memory } from "./usage.js";

export function link(name, tool) { return "#/s/" + encodeURIComponent(name) + (tool ? "/" + encodeURIComponent(tool) : ""); }

export function nameOf(server) { return h("a", { href: link(server), class: "name" }, server); }

function cell(style, ...children) { return h("span", { role: "cell", class: style }, children); }

const order = ["evicted", "unauthorized", "parked", "backoff", "connecting", "discovering", "closing", "waiting", "stopping", "unregistered", "stopped", "asleep", "resting", "ready"];

// showSummary counts the servers by state. Each count is a button that shows only these.
export function showSummary(el, servers, chosen) {
	const counts = new Map();
	for (const s of servers) counts.set(s.state, (counts.get(s.state) ?? 0) + 1);
	fill(el, order.filter((state) => counts.has(state) || state === chosen).map((state) => {
		const [mark, word, tone] = stateOf(state);
		return h("li", { key: state }, h("button", { type: "button", class: "state " + tone, "data-state": state, "aria-pressed": String(state === chosen) }, glyph(mark), count(counts.get(state) ?? 0) + " " + word));
	}));
}

const severities = { error: ["✗", "bad", "Error"], warning: ["▲", "warn", "Warning"], notice: ["i", "busy", "Notice"] };

// calm says what there is to say when nothing needs attention.
function calm(servers, lost) {
	const toned = (tone) => servers.filter((s) => stateOf(s.state)[2] === tone).length;
	const ready = toned("good"), busy = toned("busy"), stopped = servers.filter((s) => s.state === "stopped").length, resting = servers.filter(rests).length;
	if (lost) return ["○", "off", "Unknown since the connection was lost."];
	if (!servers.length) return ["○", "off", "No server is registered yet."];
	if (ready === servers.length) return ["●", "good", "Nothing. All servers are ready."];
	const planned = [ready ? count(ready) + " ready" : null, resting ? count(resting) + " at rest" : null, stopped ? count(stopped) + " stopped" : null].filter(Boolean).join(", ");
	const rest = servers.length - ready - busy - resting - stopped;
	if (!busy && !rest) return ["●", "good", "Nothing. " + planned + "."];
	return ["◐", "busy", "Nothing yet. " + [busy ? plural(busy, "server") + " starting" : null, rest ? plural(rest, "server") + " not ready" : null, planned || null].filter(Boolean).join(", ") + "."];
}

export function showAttention(el, entries, controls, servers, lost) {
	const urgent = entries.filter((a) => a.severity !== "notice");
	const title = head("Needs attention", entries.length || null);
	if (!entries.length) {
		const [mark, tone, text] = calm(servers, lost);
		fill(el, title, h("p", "calm", glyph(mark, tone), text));
		return;
	}
	const item = (a) => {
		const [mark, tone, word] = severities[a.severity] ?? severities.notice, names = a.servers ?? [];
		return h("li", { key: a.kind + " " + (a.server || names[0] || a.text), class: "alert " + tone }, glyph(mark), h("span", "hidden", word + ": "),
			a.server ? nameOf(a.server) : names.length ? h("span", "name", names.length < 3 ? names.join(", ") : names[0] + " … " + names.at(-1)) : null,
			h("details", "alert-text", h("summary", null, h("span", "text", a.text), a.since ? h("span", "note", past.has(a.kind) ? [" ", age(a.since), " ago"] : [" for ", age(a.since)]) : null, " ", h("span", "do", a.action.slice(0, 1).toUpperCase() + a.action.slice(1))),
				(a.more ?? []).map((text) => h("p", "note", text)),
				names.length ? h("p", "names", names.map((name) => [nameOf(name), " "])) : null),
			controls && a.group ? startButton(a.group) : controls && restartable.has(a.kind) ? (a.servers ? restartAll(a.servers) : a.server ? restartButton(a.server) : null) : null);
	};
	const quiet = entries.filter((a) => a.severity === "notice"), first = urgent.slice(0, shownAlerts), more = urgent.slice(shownAlerts);
	fill(el, title, urgent.length ? h("ul", "alerts", first.map(item)) : null,
		more.length ? h("details", { class: "quiet", key: "more" }, h("summary", null, count(more.length) + " more"), h("ul", "alerts", more.map(item))) : null,
		quiet.length ? h("details", { class: "quiet", key: "notices", open: !urgent.length && quiet.length < 4 },
			h("summary", null, plural(quiet.length, "notice")), h("ul", "alerts", quiet.map(item))) : null);
}

const shownAlerts = 12;
const restartable = new Set(["evicted", "parked", "backoff", "unauthorized", "flapping", "slow_start"]);

// past are the kinds whose time is when something happened.
const past = new Set(["restarted", "flapping", "unknown_outcome"]);

function restartAll(names) {
	return h("button", { type: "button", "data-act": "restart-all", "data-servers": JSON.stringify(names), label: "Restart all " + names.length + " servers" }, "Restart all");
}

// restartButton, drainButton, startButton and stopButton ask for what the page does with a server. startButton takes a
// group, too, and drainButton restarts the server after the end of its calls.
export function restartButton(name) { return button("restart", "Restart", name); }
export function drainButton(name) { return h("button", { type: "button", "data-act": "restart", "data-server": name, "data-sure": "drain", label: "Restart after calls of " + name }, "Restart after calls"); }
export function startButton(name) { return button("start", "Start", name); }
export function stopButton(name) { return button("stop", "Stop", name); }

function button(act, word, name) {
	return h("button", { type: "button", "data-act": act, "data-server": name, label: word + " " + name }, word);
}

// showTree shows groups in their order, each with its members, and then the servers of no group. With only, a group
// is shown if a server of it is. It draws no more than shownTree servers, and the selected one, and returns how many it leaves out.
export function showTree(el, servers, groups, selected, only) {
	let room = shownTree, out = 0;
	const of = new Map(servers.map((s) => [s.name, s])), byName = new Map(groups.map((g) => [g.name, g]));
	const grouped = new Set(groups.flatMap((g) => g.members));
	// resolve makes the part of the tree below a name: a server, a group with its shown members, or null.
	const resolve = (name) => {
		const g = byName.get(name);
		if (!g) {
			const s = of.get(name) ?? null;
			if (!s || room-- > 0 || name === selected) return s;
			out++;
			return null;
		}
		const members = g.members.map(resolve).filter(Boolean);
		return members.length || !only ? { ...g, members } : null;
	};
	const roots = [...groups.filter((g) => !g.parent).map((g) => g.name), ...servers.filter((s) => !grouped.has(s.name)).map((s) => s.name)].map(resolve).filter(Boolean);
	list(el, roots, (one) => one.name, (one) => signature(one, selected), (one) => branch(one, selected));
	return out;
}

const shownTree = 100;

function signature(one, selected) {
	if (one.members) return JSON.stringify([one.name, one.state, one.strategy, one.cause?.message, one.members.map((m) => signature(m, selected))]);
	return [one.name, one.state, one.epoch, one.session?.pid, one.standby?.pid, one.copies, one.waitsFor, one.name === selected].join();
}

const strategies = { one_for_one: "one for one", rest_for_one: "rest for one", one_for_all: "one for all" };

function branch(one, selected) {
	const [mark, word, tone] = stateOf(one.state), said = tone === "good" ? h("span", "hidden", ", " + word) : h("span", "word " + tone, word);
	if (one.members) return h("li", { key: one.name, class: "group" },
		h("span", { class: "group-head", title: one.cause?.message ?? null }, glyph(mark, tone), h("span", "name", one.name), said, h("span", "word", h("span", "hidden", ", "), strategies[one.strategy] ?? one.strategy)),
		one.members.length ? h("ul", null, one.members.map((m) => branch(m, selected))) : null);
	const children = [];
	if (one.session) children.push(node("epoch " + one.epoch, one.session.pid));
	if (one.standby) children.push(node("standby", one.standby.pid));
	for (const pid of one.copies ?? []) children.push(node("copy", pid));
	if (one.waitsFor?.length) children.push(node("for " + one.waitsFor.join(", ")));
	return h("li", { key: one.name },
		h("a", { href: link(one.name), "aria-current": one.name === selected ? "page" : null }, glyph(mark, tone), h("span", "name", one.name), said),
		children.length ? h("ul", null, children) : null);
}

function node(text, pid) {
	return h("li", null, h("span", { class: "dash", "aria-hidden": "true" }), text, pid ? " · pid " + pid : "");
}

const loudness = { bad: 4, warn: 3, busy: 2, off: 1, good: 0 };
const measures = { trouble: (s) => loudness[stateOf(s.state)[2]], failed: (s) => s.calls.failed + (s.totals?.toolErrors ?? 0), calls: (s) => s.calls.total, restarts: (s) => s.restarts, cpu: (s, used) => used?.cpu ?? -1, memory: (s, used) => used?.memoryBytes ?? -1, tools: (s) => s.catalog.tools, since: (s) => Date.parse(s.downSince ?? s.since) };
let placed = new Map(); // by server: its place

// arrange chooses the order of the rows, the other way round with - before it. They keep their places until it is
// called again, whatever happens to the servers: a row must not move while it is read.
export function arrange(servers, by, usage) {
	const key = by.replace(/^-/, ""), measure = Object.hasOwn(measures, key) ? measures[key] : () => 0, sign = by.startsWith("-") ? -1 : 1;
	placed = new Map(by ? servers.sort((a, b) => sign * (measure(b, usage.get(b.name)) - measure(a, usage.get(a.name)) || byName(a, b))).map((s, i) => [s.name, i]) : []);
}

// byPlace orders servers; one that was registered later comes after those that have a place.
export function byPlace(a, b) {
	const last = placed.size;
	return (placed.get(a.name) ?? last) - (placed.get(b.name) ?? last) || byName(a, b);
}

export function byName(a, b) { return a.name < b.name ? -1 : a.name > b.name ? 1 : 0; }

const heads = [["State", "trouble", true], ["Server", "name"], ["For", "since"], ["History"], ["Calls", "calls", true], ["Restarts", "restarts", true], ["Catalog", "tools", true], ["Load", "cpu", true]];

// showHeads shows the heads of the columns, which order the rows.
export function showHeads(el) { fill(el, heads.map(([title, key, desc]) => sortHead("span", { role: "columnheader", key: title }, "servers", title, key, desc))); }

// inTrouble tells whether a server is neither ready nor out of service as planned.
export function inTrouble(s) { return loudness[stateOf(s.state)[2]] > 1; }

export function showRows(el, servers, seconds, usage, placed) {
	const period = seconds || autoWindow(servers);
	el.classList.toggle("many", servers.length > 100);
	const now = serverNow(), step = period * 10; // 100 steps: a lane moves when it has to
	list(el, servers, (s) => s.name, (s) => JSON.stringify([s.state, s.since, s.epoch, s.attempt, s.retryAt, s.restarts, s.session?.pid, s.calls, s.totals?.toolErrors, s.catalog, s.history?.length, s.lastCause, s.standby?.pid, s.session?.stderr, s.waitsFor, period, Math.floor(now / step), changed(usage.get(s.name)), nodeOf(placed, s.name)]),
		(s) => row(s, now - period * 1000, now, usage.get(s.name), nodeOf(placed, s.name)));
	return period;
}

// autoWindow is the shortest window that shows all that is kept, one hour at most.
function autoWindow(servers) {
	let first = serverNow();
	for (const s of servers) first = Math.min(first, Date.parse(s.history?.[0]?.started ?? s.since));
	const seen = (serverNow() - first) / 1000;
	return [60, 300, 900].find((size) => seen <= size) ?? 3600;
}

function row(s, from, to, used, node) {
	const tone = stateOf(s.state)[2];
	const why = reason(s);
	return h("div", { role: "row", class: "row is-" + tone, key: s.name },
		cell(null, badge(s.state)),
		cell("who", nameOf(s.name), node ? h("span", "sub", node) : null, h("span", "sub mono", s.target)),
		cell("when", when(s)),
		cell("lane-cell", lane(s, from, to)),
		cell("num" + (s.calls.total ? "" : " off"), count(s.calls.total), s.calls.inFlight || s.calls.queued ? h("span", "sub busy", count(s.calls.inFlight) + " now" + (s.calls.queued ? ", " + count(s.calls.queued) + " queued" : "")) :
			troubles(s) ? h("span", { class: "sub wraps" }, troubles(s)) : null),
		cell("num" + (s.restarts ? "" : " off"), count(s.restarts), s.standby ? h("span", "sub good", "1 standby") : null),
		cell("num" + (s.catalog.tools ? "" : " off"), s.catalog.tools || s.state === "ready" ? plural(s.catalog.tools, "tool") : "–", s.catalog.tokens ? h("span", "sub", tokens(s.catalog.tokens)) : null),
		cell("num load" + (used ? "" : " off"), load(used)),
		h("div", { role: "cell", class: "few" }, few(s, used)),
		why ? h("div", { role: "cell", class: "why" }, why) : null);
}

// nodeOf tells where a server runs, in place of its target. It is null without a fleet.
export function nodeOf(placed, name) {
	const p = placed?.get(name);
	return p ? (p.node ? "on " + p.node : "on no node") : null;
}

// few are the numbers of a row in one line, for a narrow window.
function few(s, used) {
	return [s.calls.total ? plural(s.calls.total, "call") : null, troubles(s) || null, s.calls.inFlight ? count(s.calls.inFlight) + " in flight" : null,
		s.restarts ? plural(s.restarts, "restart") : null, s.catalog.tools ? plural(s.catalog.tools, "tool") : null, cpu(used?.cpu), memory(used?.memoryBytes)].filter(Boolean).join(" · ");
}

export function when(s) {
	if (!s.retryAt) return age(s.downSince ?? s.since);
	return ["next try ", until(s.retryAt), s.downSince ? h("span", "sub", "down for ", age(s.downSince)) : null, h("span", "sub", s.state === "parked" ? "slow retries" : "attempt " + (s.attempt + (s.state === "backoff" ? 0 : 1)) + (s.maxAttempts > 0 ? " of " + s.maxAttempts : ""))];
}

export function reason(s, lines = 4) {
	if (s.waitsFor?.length) return h("p", null, "waits for " + s.waitsFor.join(", "));
	if (s.state === "ready" || rests(s) || !s.lastCause && !s.session?.stderr) return null;
	let stderr = (s.session?.stderr ?? s.lastCause?.stderr ?? []).slice(-lines);
	if (stderr.length === 1 && s.lastCause?.message.startsWith(stderr[0])) stderr = []; // it is the cause
	return [s.lastCause ? h("p", null, s.lastCause.message, kind(s.lastCause)) : null,
		stderr.length ? h("pre", { class: "stderr", label: "stderr of " + s.name }, stderr.join("\n")) : null];
}

export function kind(cause) { return h("span", "tag", cause.kind + (cause.permanent ? ", permanent" : "")); }

// lane draws the incarnations of a server over time. Shape and height differ as well as
// colour: ready is tall, starting is half, waiting is a thin line, an end is a mark.
export function lane(s, from, to) {
	const x = (time) => Math.max(0, Math.min(1, (Date.parse(time) - from) / (to - from))) * 300;
	const parts = [], marks = [];
	const piece = (kind, a, b, title) => {
		if (b - a < 0.3 && kind !== "end") b = a + 0.6;
		const [y, height] = { ready: [2, 12], start: [5, 6], wait: [7, 2], gone: [7, 2], failed: [4, 8] }[kind];
		parts.push(h("rect", { class: "lane-" + kind, x: a.toFixed(1), width: (b - a).toFixed(1), y, height }, h("title", null, title)));
	};
	const history = s.history ?? [];
	let last = null, ends = 0;
	for (const i of history) {
		const ended = x(i.ended);
		if (ended <= 0) { last = i.ended; continue; }
		if (last) piece("wait", x(last), x(i.started), "not ready");
		const started = last && i.started < last ? last : i.started;
		piece(i.served ? "ready" : "failed", x(started), ended, "epoch " + i.epoch + (i.served ? " served " : " did not start, ") + span(Date.parse(i.ended) - Date.parse(i.started)));
		if (!["restart", "moved", "requested"].includes(i.cause?.kind)) {
			ends++;
			marks.push(h("path", { class: "lane-end", d: `M${ended.toFixed(1)} 0v16` }, h("title", null, i.cause?.message ?? "ended")));
		}
		last = i.ended;
	}
	const [, word, tone] = stateOf(s.state);
	if (last && last < s.since) piece("wait", x(last), x(s.since), "not ready");
	piece(tone === "good" ? "ready" : tone === "busy" ? "start" : tone === "bad" ? "gone" : "wait", x(s.since), 300, word + " since " + s.since);
	const told = word + (ends ? ", " + plural(ends, "end") + " in this window" : ", no end in this window");
	return h("svg", { class: "lane", viewBox: "0 0 300 16", preserveAspectRatio: "none", role: "img", label: told }, parts, marks);
}
