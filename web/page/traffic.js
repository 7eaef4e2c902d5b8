// Calls in flight and ended ones, and the tools by use.
import { fill, h, head, num, td } from "./dom.js";
import { age, at, count, fits, plural, tell, took, tokens } from "./format.js";
import { all, brief, search } from "./places.js";
import { link, nameOf } from "./servers.js";
import { ordered, part, table } from "./table.js";

function what(call, server) {
	return [server ? null : nameOf(call.server), h("span", "mono", call.target ? (server ? "" : "/") + call.target : ""),
		call.method === "tools/call" ? null : h("span", "tag", call.method), call.client ? h("span", "sub", "for " + call.client) : null];
}

// outcome says how a call ended, by mark, word and colour. An unknown outcome stands out:
// the server may have executed the call.
export function outcome(c) {
	if (!c.kind) return c.toolError ? tell("!", "warn", "tool error") : tell("✓", "good", "ok");
	const name = c.kind.replaceAll("_", " ");
	if (c.outcome === "unknown") return [tell("?", "bad loud", "outcome unknown"), h("span", "tag", name)];
	if (c.outcome === "not_sent") return [tell("⊘", "off", "not sent"), h("span", "tag", name)];
	return tell("✗", "bad", name);
}

// of tells whether something is about a server, or about one of the servers that a filter has
// left; null means all.
export function of(server, only) { return (c) => server ? c.server === server : !only || only.has(c.server); }

// found tells whether something about a server fits a filter: by the server, or by texts of its own.
// It is never about a server that is not in the chosen state.
export function found(app, only, server, texts) {
	return !only || only.has(server) || Boolean(app.wanted) && (!app.ofState || app.ofState.has(server)) && fits(app.wanted, server, ...texts.filter(Boolean));
}

// outcomes say what became of a call, as far as that is known.
const outcomes = { unknown: "The server may have executed the call.", not_sent: "Nothing was sent: repeating it is safe.", answered: "The server answered, and the error is its answer or about it." };

// unfolded are the keys of what the reader has unfolded: nothing else of its kind is built.
export const unfolded = new Set();

// opened is what a reader unfolds of a call that has ended.
function opened(c) {
	const key = "call " + c.seq;
	const sentence = c.kind ? outcomes[c.outcome] ?? "The call failed." : c.toolError ? "The tool ran and failed by itself: its result has isError." : "The server answered.";
	const line = (name, ...text) => h("div", null, h("dt", null, name), h("dd", null, text));
	return h("details", { key }, h("summary", null, "Details", h("span", "hidden", " of call " + c.seq + " of " + c.server + (c.target ? "/" + c.target : ""))),
		unfolded.has(key) && h("dl", "opened", line("Began", at(c.began)), line("Took", took(c.tookNs)), line("Outcome", sentence, c.kind ? h("span", "tag", c.kind.replaceAll("_", " ")) : null),
			c.error ? line("Error", c.error) : null, c.epoch ? line("Epoch", c.epoch) : null,
			line("Client", c.client || "None is named: a client without a name, a command, this page or the program itself made the call."),
			line("Arguments", "They are not kept here. The journal keeps those of calls with a key (--journal FILE), and records those of all calls (--records-arguments whole), below.")));
}

// cancelButton ends a call in flight, or one that its server executes as a task. call is what the API takes.
function cancelButton(app, c, path, call) {
	return app.controls && !app.cut ? h("button", { type: "button", "data-act": "cancel", "data-path": path, "data-call": JSON.stringify(call), label: "Cancel the call of " + callOf(c) }, "Cancel") : null;
}

export function showInFlight(el, app, server, only) {
	const now = app.inFlight.filter(of(server, only)), tasks = app.tasks.filter(of(server, only)).map((t) => ({ ...t, target: t.tool, method: "tools/call", task: true }));
	el.hidden = !now.length && !tasks.length;
	const state = (c) => c.task ? [tell("◐", "busy", "task, " + c.state.replaceAll("_", " ")), c.key ? h("span", "tag", "key " + keyOf(c)) : null, c.recovered ? h("span", "tag", "found again " + c.recovered + "×") : null, " ", cancelButton(app, c, "tasks/cancel", { number: c.number }), c.message ? h("span", "sub", c.message) : null]
		: [c.queued ? tell("◷", "warn", "queued") : tell("◐", "busy", "running"), c.id ? [" ", cancelButton(app, c, "calls/cancel", c)] : null];
	fill(el, head("Calls in flight", count(now.length + tasks.length)), table("flight", "Calls in flight", [["Age", (c) => -Date.parse(c.began)], ["Call", callOf], ["Epoch", (c) => c.epoch], ["State", (c) => c.task ? c.state : c.queued ? "queued" : "running"]], [...tasks, ...now],
		(c) => h("tr", { key: [c.server, c.method, c.target, c.began, c.number].join(" ") }, td(age(c.began)), h("td", "grow", what(c, server)), td(c.task ? "–" : c.epoch), td(h("div", "actions", state(c)))), "None."));
}

// callOf is what a list of calls can be ordered by.
const callOf = (c) => c.server + "/" + (c.target ?? c.tool ?? "");

// keyOf is the key of a call, with the principal that made it.
const keyOf = (c) => c.principal ? c.key + " of " + c.principal : c.key;

// showUnfinished lists calls with a key that an earlier process has made, and that have no end.
export function showUnfinished(el, app, server, only) {
	const all = app.unfinished.filter(of(server, only)), title = "Calls of an earlier process without an end";
	el.hidden = !all.length;
	fill(el, head(title, count(all.length + (server || only ? 0 : app.moreUnfinished))), table("unfinished", title, [["Age", (e) => -Date.parse(e.began)], ["Key", keyOf], ["Call", callOf], ["State", (e) => e.state]], all,
		(e) => h("tr", { key: JSON.stringify([e.principal, e.key]) }, td(age(e.began)), h("td", "grow mono", keyOf(e)), h("td", "whole", what({ ...e, target: e.tool, method: "tools/call" }, server)),
			td(e.state === "task" ? [tell("◐", "warn", "task, no caller waits for it"), " ", cancelButton(app, e, "tasks/cancel", { principal: e.principal, key: e.key })] : tell("?", "bad loud", "interrupted, may have been executed"))), "", "folds"));
}

// alike puts calls that ended in the same way, one after the other, into one row.
function alike(calls) {
	const groups = [];
	for (const c of calls) {
		const last = groups.at(-1), key = [c.server, c.target, c.method, c.kind, c.client].join(" ");
		if (last?.key === key) last.calls.push(c);
		else groups.push({ key, calls: [c] });
	}
	return groups;
}

const pinned = 5, briefly = 8; // rows of unknown outcome, and others, on the overview

// ended is when a call has ended, in milliseconds.
const ended = (c) => Date.parse(c.began) + (c.tookNs ?? 0) / 1e6;

// showCalls lists the last calls. Those of unknown outcome come first and stay: successful
// calls do not push them out.
export function showCalls(el, app, server, only) {
	const mine = (c) => ended(c) >= app.since && (server ? c.server === server : found(app, only, c.server, [c.target, c.server + "/" + (c.target ?? ""), c.client, c.error]));
	const unknown = app.unknown.filter(mine).reverse(), groups = alike(unknown).map((g) => ({ ...g.calls[0], times: g.calls.length })), others = app.recent.filter((c) => mine(c) && c.outcome !== "unknown").reverse();
	const first = brief() ? [groups.slice(0, pinned), others.slice(0, briefly)] : [groups, others];
	const titles = new Map(!groups.length || ordered("calls") ? [] : [[first[0][0], "Unknown outcome"], [first[1][0], "Last ended"]]);
	const title = (text) => text ? h("tr", { key: text, class: "title-row" }, h("th", { colspan: 4, scope: "colgroup" }, text)) : [];
	const row = (c) => [title(titles.get(c)), h("tr", { key: c.seq, class: c.outcome === "unknown" ? "unknown" : null }, td(at(new Date(ended(c)).toISOString())), h("td", "whole", what(c, server), opened(c)), h("td", "outcome", outcome(c), c.times > 1 ? h("span", "tag", count(c.times) + "×") : null), num(took(c.tookNs)))].flat();
	fill(el, head("Recent calls", [unknown.length ? h("strong", "bad", plural(unknown.length, "unknown outcome")) : null, all("calls", "All calls")]),
		table("calls", "Recent calls", [["Ended", ended], ["Call", callOf], ["Outcome", (c) => c.kind ? c.outcome + " " + c.kind : c.toolError ? "answered tool error" : "answered"], ["#Took", (c) => c.tookNs]], first.flat(), row,
			!app.polled ? "Loading…" : only || app.since ? "No call that fits has ended yet." : "No call has ended yet.", "folds"));
}

// showFound lists the tools of all servers that fit the filter.
export function showFound(el, found) {
	const tools = found?.tools ?? [], title = "Tools that fit the filter";
	el.hidden = !tools.length;
	fill(el, head(title, [found?.more ? "the first " + tools.length + " of " + count(tools.length + found.more) + " " : null, all("tools", "All of them")]), table("found", title, [["Tool", (t) => t.name], "Description"], tools,
		(t) => h("tr", { key: t.name }, h("td", "whole tool", h("a", { href: link(t.server, t.originalName), class: "name" }, t.name)), h("td", "grow", t.description ?? "")), "", "folds"));
}

// merged are the tools of all servers: first those that took the most time, then those that were not called.
let merged = { number: 0, stats: null, lists: null, tools: [] };

function toolsOf({ tools: stats, lists }) {
	if (merged.stats === stats && merged.lists === lists) return merged.tools;
	const of = new Map((lists?.tools ?? []).map((t) => [t.name, t])), called = new Set((stats ?? []).map((t) => t.name));
	merged = { number: merged.number + 1, stats, lists, tools: [...(stats ?? []).map((t) => ({ ...of.get(t.name), ...t })), ...[...of.values()].filter((t) => !called.has(t.name))] };
	return merged.tools;
}

// showTools lists the tools of all servers. It builds only what has changed.
export function showTools(el, app) {
	const tools = toolsOf(app), signature = [merged.number, part("tools", tools).length, app.wanted, search()].join(" ");
	if (el.firstChild && el.signature === signature) return;
	el.signature = signature;
	const fitting = app.wanted ? tools.filter((t) => fits(app.wanted, t.name, t.description ?? "")) : tools;
	fill(el, head("Tools", (fitting.length < tools.length ? count(fitting.length) + " of " : "") + plural(tools.length, "tool") + (app.lists?.more ? ", " + count(app.lists.more) + " more are not listed" : "") + (ordered("tools") ? "" : ", those that took the most time first")),
		table("tools", "Tools", [["Tool", (t) => t.name], ["#Tokens", (t) => t.tokens], ["#Calls", (t) => t.calls ?? 0], ["#Failed", failedOf], ["#Tool errors", (t) => t.toolErrors ?? 0], ["#p50", (t) => t.p50Ns], ["#p95", (t) => t.p95Ns], ["#Max", (t) => t.maxNs], "p50 to p95, logarithmic"], fitting, (t) =>
			h("tr", { key: t.server + " " + t.name }, h("td", "whole tool", h("a", { href: link(t.server, t.originalName), class: "name" }, t.server + "/" + t.originalName), t.description ? h("span", "sub wraps", t.description) : null),
				num(t.tokens ? tokens(t.tokens).replace(/ tokens?/, "") : "–"), t.calls ? [num(count(t.calls)), num(failures(t)), num(count(t.toolErrors ?? 0)), num(took(t.p50Ns)), num(took(t.p95Ns)), num(took(t.maxNs)), h("td", "wide", spread(t))]
					: ["0", "0", "0", "–", "–", "–", ""].map((text, i) => h("td", i === 6 ? "wide" : "num off", text))), !app.lists || !app.tools ? "Loading…" : tools.length ? "No tool fits the filter." : "No server lists a tool.", "folds"));
}

// showLists lists the resources and prompts of all servers.
export function showLists(el, app) {
	const list = (id, title, noun, columns, row) => {
		const items = app.lists?.[id] ?? [], fitting = app.wanted ? items.filter((x) => fits(app.wanted, x.server, x.name, x.originalName, x.description ?? "")) : items;
		return h("section", { key: id }, head(title, (fitting.length < items.length ? count(fitting.length) + " of " : "") + count(items.length)), table(id, title, columns, fitting, row, !app.lists ? "Loading…" : items.length ? "No " + noun + " fits the filter." : "No server lists a " + noun + ".", "folds"));
	};
	fill(el, list("resources", "Resources", "resource", [["URI", (r) => r.originalName], ["Name", (r) => r.name], ["Server", (r) => r.server]], (r) => h("tr", { key: r.server + " " + r.originalName },
		h("td", "whole", h("span", "mono", r.originalName), r.originalName.includes("{") ? h("span", "tag", "template") : null, r.description ? h("span", "sub wraps", r.description) : null), td(r.name), td(nameOf(r.server)))),
	list("prompts", "Prompts", "prompt", [["Prompt", (p) => p.name], ["Server", (p) => p.server]], (p) => h("tr", { key: p.name },
		h("td", "whole", h("span", "name", p.name), p.description ? h("span", "sub wraps", p.description) : null), td(nameOf(p.server)))),
	app.lists?.more ? h("p", "note", count(app.lists.more) + " more are not listed.") : null);
}

// failedOf counts the failed calls of a tool.
export function failedOf(t) { return Object.values(t.failed ?? {}).reduce((sum, n) => sum + n, 0); }

// failures counts the failed calls of a tool. Results with isError are counted as tool errors.
export function failures(t) { return [count(failedOf(t)), t.unknown ? h("span", "tag bad", count(t.unknown) + " unknown") : null]; }

// spread draws p50 to p95 on a logarithmic scale from 10 µs to 100 s.
function spread(t) {
	const x = (ns) => Math.max(0, Math.min(97, (Math.log10(ns / 1e4) / 7) * 100));
	const from = x(t.p50Ns), to = Math.max(x(t.p95Ns), from + 1);
	return h("svg", { class: "spread", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
		[1, 2, 3, 4, 5, 6].map((i) => h("rect", { class: "grid", x: (i * 100) / 7, y: 0, width: 0.3, height: 8 })),
		h("rect", { class: "lane-ready", x: from, y: 2, width: to - from, height: 4 }), h("rect", { class: "median", x: from, y: 1, width: 1, height: 6 }));
}
