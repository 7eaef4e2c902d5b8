// Calls in flight and ended ones, and the tools by use.
import { fill, h, head, num, td } from "./dom.js";
import { age, at, count, fits, plural, tell, took } from "./format.js";
import { link, nameOf } from "./servers.js";

// table makes a table. With the style "folds" a narrow window shows each row as a few lines, where
// each cell but the wide ones has its title.
export function table(caption, columns, rows, empty, style) {
	if (!rows.length) return h("p", "calm", empty);
	for (const row of rows) [...row.cells].forEach((cell, i) => cell.setAttribute("data-title", columns[i].replace("#", "")));
	return h("div", { class: "scroll", tabindex: 0, role: "region", label: caption }, h("table", style, h("caption", "hidden", caption),
		h("thead", null, h("tr", null, columns.map((c) => h("th", { scope: "col", class: c.startsWith("#") ? "num" : null }, c.replace("#", ""))))),
		h("tbody", null, rows)));
}

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

// opened is what a reader unfolds of a call that has ended.
function opened(c) {
	const sentence = c.kind ? outcomes[c.outcome] ?? "The call failed." : c.toolError ? "The tool ran and failed by itself: its result has isError." : "The server answered.";
	const line = (name, ...text) => h("div", null, h("dt", null, name), h("dd", null, text));
	return h("details", { key: "call " + c.seq }, h("summary", null, "Details", h("span", "hidden", " of call " + c.seq + " of " + c.server + (c.target ? "/" + c.target : ""))),
		h("dl", "opened", line("Began", at(c.began)), line("Took", took(c.tookNs)), line("Outcome", sentence, c.kind ? h("span", "tag", c.kind.replaceAll("_", " ")) : null),
			c.error ? line("Error", c.error) : null, c.epoch ? line("Epoch", c.epoch) : null,
			line("Client", c.client || "None is named: a client without a name, a command, this page or the program itself made the call."),
			line("Arguments", "They are not kept here. The journal keeps those of calls with a key: run with --journal FILE.")));
}

// cancelButton ends a call that its server executes as a task.
function cancelButton(app, t, task) {
	return app.controls && !app.cut ? h("button", { type: "button", "data-act": "cancel-task", "data-task": JSON.stringify(task), label: "Cancel the call of " + t.server + "/" + t.tool }, "Cancel") : null;
}

export function showInFlight(el, app, server, only) {
	const now = app.inFlight.filter(of(server, only)), tasks = app.tasks.filter(of(server, only));
	el.hidden = !now.length && !tasks.length;
	const row = (c, epoch, state) => h("tr", { key: [c.server, c.method, c.target ?? c.tool, c.began].join(" ") }, td(age(c.began)), h("td", "grow", what(c, server)), td(epoch), td(state));
	fill(el, head("Calls in flight", count(now.length + tasks.length)), table("Calls in flight", ["Age", "Call", "Epoch", "State"], [
		...tasks.slice(0, 20).map((t) => row({ ...t, target: t.tool, method: "tools/call" }, "–", [tell("◐", "busy", "task, " + t.state.replaceAll("_", " ")), t.key ? h("span", "tag", "key " + keyOf(t)) : null, t.recovered ? h("span", "tag", "found again " + t.recovered + "×") : null, " ", cancelButton(app, t, { number: t.number }), t.message ? h("span", "sub", t.message) : null])),
		...now.slice(0, 20).map((c) => row(c, c.epoch, c.queued ? tell("◷", "warn", "queued") : tell("◐", "busy", "running")))], "None."));
}

// keyOf is the key of a call, with the principal that made it.
const keyOf = (c) => c.principal ? c.key + " of " + c.principal : c.key;

// showUnfinished lists calls with a key that an earlier process has made, and that have no end.
export function showUnfinished(el, app, server, only) {
	const all = app.unfinished.filter(of(server, only));
	el.hidden = !all.length;
	fill(el, head("Calls of an earlier process without an end", count(all.length + (server || only ? 0 : app.moreUnfinished))), table("Calls of an earlier process without an end", ["Age", "Key", "Call", "State"],
		all.map((e) => h("tr", { key: JSON.stringify([e.principal, e.key]) }, td(age(e.began)), h("td", "grow mono", keyOf(e)), h("td", "whole", what({ ...e, target: e.tool, method: "tools/call" }, server)),
			td(e.state === "task" ? [tell("◐", "warn", "task, no caller waits for it"), " ", cancelButton(app, e, { principal: e.principal, key: e.key })] : tell("?", "bad loud", "interrupted, may have been executed")))), "", "folds"));
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

const pinned = 5; // rows of unknown outcome

// showCalls lists the last calls. Those of unknown outcome come first and stay: successful
// calls do not push them out.
export function showCalls(el, app, server, only) {
	const mine = (c) => server ? c.server === server : found(app, only, c.server, [c.target, c.server + "/" + (c.target ?? ""), c.client, c.error]);
	const unknown = app.unknown.filter(mine).reverse(), groups = alike(unknown), others = app.recent.filter((c) => mine(c) && c.outcome !== "unknown").slice(-50).reverse();
	const row = (c, more) => h("tr", { key: c.seq, class: c.outcome === "unknown" ? "unknown" : null }, td(at(new Date(Date.parse(c.began) + (c.tookNs ?? 0) / 1e6).toISOString())), h("td", "whole", what(c, server), opened(c)), h("td", "outcome", outcome(c), more?.length > 1 ? h("span", "tag", count(more.length) + "×") : null), num(took(c.tookNs)));
	const title = (text) => h("tr", { key: text, class: "title-row" }, h("th", { colspan: 4, scope: "colgroup" }, text));
	const rows = groups.slice(0, app.allUnknown ? groups.length : pinned).map((g) => row(g.calls[0], g.calls)), left = groups.length - rows.length;
	fill(el, head("Recent calls", unknown.length ? h("strong", "bad", plural(unknown.length, "unknown outcome")) : null),
		left || app.allUnknown && groups.length > pinned ? h("p", { key: "more" }, h("button", { type: "button", "data-act": "all-unknown", "aria-pressed": String(Boolean(app.allUnknown)) }, app.allUnknown ? "Fewer of unknown outcome" : "All of unknown outcome: " + plural(left, "more row"))) : null,
		table("Recent calls", ["Ended", "Call", "Outcome", "#Took"], rows.length ? [title("Unknown outcome"), ...rows, ...(others.length ? [title("Last ended"), ...others.map((c) => row(c))] : [])] : others.map((c) => row(c)), !app.tools ? "Loading…" : only ? "No call that fits has ended yet." : "No call has ended yet.", "folds"));
}

// showFound lists the tools of all servers that fit the filter.
export function showFound(el, found) {
	const tools = found?.tools ?? [];
	el.hidden = !tools.length;
	fill(el, head("Tools that fit the filter", found?.more ? "the first " + tools.length + " of " + count(tools.length + found.more) : null), table("Tools that fit the filter", ["Tool", "Description"],
		tools.map((t) => h("tr", { key: t.name }, h("td", "whole tool", h("a", { href: link(t.server, t.originalName), class: "name" }, t.name)), h("td", "grow", t.description ?? ""))), "", "folds"));
}

export function showTools(el, all, only) {
	const stats = (all ?? []).filter(of(null, only)), top = stats.slice(0, 12);
	fill(el, head("Busiest tools", stats.length > top.length ? "of " + plural(stats.length, "tool") : null),
		table("Busiest tools", ["Tool", "#Calls", "#Failed", "#Tool errors", "#p50", "#p95", "#Max", "p50 to p95"], top.map((t) =>
			h("tr", { key: t.server + " " + t.name }, h("td", "whole tool", h("a", { href: link(t.server, t.originalName), class: "name" }, t.server), h("span", "mono", "/" + t.originalName)),
				num(count(t.calls)), num(failures(t)), num(count(t.toolErrors ?? 0)), num(took(t.p50Ns)), num(took(t.p95Ns)), num(took(t.maxNs)),
				h("td", "wide", t.calls ? spread(t) : null))), !all ? "Loading…" : only ? "No tool of these servers is among the busiest." : "No tool has been called yet.", "folds"));
}

// failures counts the failed calls of a tool. Results with isError are counted as tool errors.
export function failures(t) {
	const failed = Object.values(t.failed ?? {}).reduce((sum, n) => sum + n, 0);
	return [count(failed), t.unknown ? h("span", "tag bad", count(t.unknown) + " unknown") : null];
}

// spread draws p50 to p95 on a logarithmic scale from 10 µs to 100 s.
function spread(t) {
	const x = (ns) => Math.max(0, Math.min(97, (Math.log10(ns / 1e4) / 7) * 100));
	const from = x(t.p50Ns), to = Math.max(x(t.p95Ns), from + 1);
	return h("svg", { class: "spread", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
		[1, 2, 3, 4, 5, 6].map((i) => h("rect", { class: "grid", x: (i * 100) / 7, y: 0, width: 0.3, height: 8 })),
		h("rect", { class: "lane-ready", x: from, y: 2, width: to - from, height: 4 }), h("rect", { class: "median", x: from, y: 1, width: 1, height: 6 }));
}
