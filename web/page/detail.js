import { fill, h, head, jsonOf, num, td } from "./dom.js";
import { age, at, badge, count, plural, rests, serverNow, span, stateOf, tell, took, tokens, troubles } from "./format.js";
import { drainButton, kind, lane, link, nodeOf, restartButton, startButton, stopButton, when } from "./servers.js";
import { addedTo, showEvents } from "./events.js";
import { here, search, titleOf } from "./places.js";
import { part, table } from "./table.js";
import { failedOf, failures, showCalls, showInFlight, showUnfinished } from "./traffic.js";
import { quote, toolForm } from "./form.js";
import { uses } from "./usage.js";

const lasting = new Set(["evicted", "parked", "unauthorized"]);

// view holds what was fetched, and the selected tool.
export function showDetail(el, name, s, view, app) {
	if (!s) {
		fill(el, back(), h("h1", { tabindex: -1 }, name), h("p", "calm", app.loaded ? "No server of that name is registered." : "Loading…"));
		return;
	}
	const flight = h("section", { key: "flight" }), unfinished = h("section", { key: "unfinished" }), calls = h("section", { key: "calls" }), events = h("section", { key: "events" });
	showInFlight(flight, app, name);
	showUnfinished(unfinished, app, name);
	showCalls(calls, app, name);
	showEvents(events, app, name);
	// The parts keep their places while a server flaps: only a lasting state moves them.
	const well = s.state === "ready", now = serverNow() - Date.parse(s.since);
	if (view.low === undefined || lasting.has(s.state)) view.low = well;
	else if (well && now > 60000) view.low = true;
	const low = view.low, stderr = stderrOf(s, view.detail?.stderr, view), catalog = catalogOf(s, view, app);
	fill(el, back(),
		h("div", { class: "title", key: "title" }, h("h1", { tabindex: -1 }, s.name), badge(s.state), h("span", "note", s.retryAt ? null : "for ", when(s)), h("span", "spring"), authorize(s, app), app.controls && !app.cut ? actions(s) : null),
		s.state !== "unauthorized" || !view.consent ? null : view.consent.isConnected ? h("section", { key: view.consent.dataset.key, "data-keep": view.consent.dataset.keep }) : view.consent,
		well ? warnings(s, app.attention) : planned(s) ? h("p", { class: "calm", key: "why" }, planned(s), advice(s, app.attention)) : !s.lastCause ? null : h("section", { class: "alert block " + stateOf(s.state)[2], key: "why", label: "Why it is not ready" }, h("div", "alert-text", h("p", null, s.lastCause.message, kind(s.lastCause)), advice(s, app.attention))),
		low ? null : stderr, facts(s, app.usage.get(s.name), app), low || view.tool ? catalog : null, historyOf(s), low ? stderr : null, low || view.tool ? null : catalog, flight, unfinished, h("div", { class: "pair", key: "pair" }, calls, events));
}

// actions are the buttons for what an operator can do with a server in its state.
function actions(s) {
	if (s.state === "stopping" || s.state === "unregistered") return null;
	if (s.state === "stopped") return startButton(s.name);
	return [rests(s) ? startButton(s.name) : restartButton(s.name), s.calls.inFlight || s.calls.queued ? drainButton(s.name) : null, stopButton(s.name)];
}

// authorize is the command to type, and a button for who has no shell at the machine of the server.
function authorize(s, app) {
	const command = "mcpvisor authorize " + quote(s.name);
	return app.attention.some((a) => a.kind === "unauthorized" && a.action.includes("mcpvisor authorize") && (a.server === s.name || a.servers?.includes(s.name))) ? [h("code", "mono", command), h("button", { type: "button", "data-act": "copy-command" }, "Copy the command"),
		app.controls && !app.cut ? h("button", { type: "button", "data-act": "authorize", "data-server": s.name }, "Authorize here") : null] : null;
}

// consent is a form that leads to an authorization server, and takes the address at which the browser ends there: the page
// cannot receive the answer. finish is called with that.
export function consent(name, url, finish) {
	const input = h("input", { id: "redirect", type: "url", autocomplete: "off", spellcheck: "false", required: true }), key = "consent " + name;
	const form = h("form", { class: "card", label: "Authorize at " + name },
		h("p", null, h("a", { class: "all", href: url, target: "_blank", rel: "noopener noreferrer" }, "Open " + new URL(url).host + " and consent"), ". The browser then ends at an address that need not open. Copy that address here, within 10 minutes:"),
		h("label", { for: "redirect" }, "Address"), input, h("p", "actions", h("button", "primary", "Finish")));
	form.onsubmit = (event) => {
		event.preventDefault();
		finish(input.value.trim());
	};
	return h("section", { key, "data-keep": key + url }, form);
}

// planned says why a server does not run that has not failed; null for another one.
function planned(s) {
	if (s.state === "stopped") return "An operator has stopped it. A reload leaves it stopped: only a start by an operator runs it again.";
	if (s.waitsFor?.length) return "It waits for " + s.waitsFor.join(", ") + ".";
	return rests(s) ? (s.lastCause ? s.lastCause.message : "Nothing has wanted it yet; it starts when it is wanted") + "." : null;
}

// advice is what the list of what needs attention says about a server, beyond its cause.
function advice(s, attention) {
	return attention.filter((a) => a.server === s.name || a.servers?.includes(s.name)).map((a) => [(a.more ?? []).map((text) => h("p", "note", text)), h("p", "do", a.action)]);
}

// warnings are what the list of what needs attention says about a server that is ready.
function warnings(s, attention) {
	const own = attention.filter((a) => a.server === s.name && a.severity !== "notice");
	return own.length ? h("section", { class: "alert block warn", key: "why", label: "What needs attention" }, h("div", "alert-text", own.map((a) => h("p", null, a.text)), advice(s, own))) : null;
}

function back() { return h("p", { class: "back", key: "back" }, h("a", { href: here.list }, "← " + titleOf(here.list))); }

function counts(by) { return Object.entries(by).filter(([, n]) => n > 0).map(([k, n]) => count(n) + " " + k).join(", "); }

const ends = new Set(["down", "start_failed", "evicted"]);

function facts(s, used, app) {
	// What happened to earlier registrations of the name is in no count of this one.
	const earlier = [...app.summaries.of.values()].filter((e) => e.last.server === s.name && (e.last.gen < s.gen || e.replaces)), again = earlier.length > 0 && s.registered;
	const end = s.totals?.ends ? null : earlier.filter((e) => ends.has(e.last.kind)).sort((a, b) => a.last.seq - b.last.seq).at(-1)?.last;
	const rows = [
		["Transport", [s.transport, h("span", "sub mono", s.target)]],
		["Node", app.placed?.has(s.name) && [nodeOf(app.placed, s.name), h("span", "sub", ["epoch " + app.placed.get(s.name).epoch + " of its place", app.placed.get(s.name).exclusive ? "exclusive" : null, app.placed.get(s.name).reason].filter(Boolean).join(", "))]],
		["Group", groupsOf(s.name, app.groups)],
		["Configured in", s.origin],
		["Speaks", s.session?.protocolVersion && [s.session.protocolVersion, h("span", "sub", [s.session.serverName, s.session.serverVersion].filter(Boolean).join(" "))]],
		["Incarnation", ["epoch " + s.epoch + (s.session?.pid ? ", pid " + s.session.pid : ""), s.standby ? h("span", "sub good", "standby ready" + (s.standby.pid ? ", pid " + s.standby.pid : "")) : null]],
		["Policy", [s.policy, s.maxAttempts ? h("span", "sub", s.attempt ? plural(s.attempt, "attempt") + " spent" : "all attempts left") : null]],
		["Up in total", s.totals && [s.state === "ready" && s.seen ? age(new Date(s.seen - s.totals.uptimeNs / 1e6).toISOString()) : span(s.totals.uptimeNs / 1e6), h("span", "sub", plural(s.totals.starts, "start") + ", ready " + count(s.totals.ready) + "×")]],
		["Last end", end && [at(end.time), h("span", "sub", "before it was registered again: " + (end.cause?.message ?? end.kind))]],
		["Ends", s.totals?.ends && counts(s.totals.ends)],
		["Calls", [count(s.calls.total), h("span", "sub", [troubles(s) || "none failed", s.totals?.unknown ? count(s.totals.unknown) + " of unknown outcome" : null].filter(Boolean).join(", ")), again ? h("span", "sub", "since it was registered again at ", at(s.registered)) : null]],
		...uses(used),
		["Discarded", s.totals && counts(s.totals.discarded ?? {})],
	];
	return h("dl", { class: "facts", key: "facts" }, rows.filter(([, v]) => v).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v))));
}

// groupsOf names the groups around a server, the nearest first; null without one.
function groupsOf(name, groups) {
	const path = [];
	for (let g = groups.find((one) => one.members.includes(name)); g && !path.includes(g); g = groups.find((one) => one.name === g.parent)) path.push(g);
	return path.length ? [path.map((g) => g.name).join(", in "), h("span", "sub", path[0].strategy.replaceAll("_", " ") + ", " + stateOf(path[0].state)[1])] : null;
}

function historyOf(s) {
	const now = serverNow(), first = s.history?.[0] ? Date.parse(s.history[0].started) : Date.parse(s.since);
	const ended = (s.history ?? []).slice().reverse(), lived = (i) => Date.parse(i.ended) - Date.parse(i.started);
	const row = (i) => h("tr", { key: i.epoch },
		num(i.epoch), num(i.pid || "–"), td(at(i.started)), num(span(lived(i))),
		td(i.served ? "served" : "did not start"), h("td", "whole", i.cause?.message ?? "", i.cause ? kind(i.cause) : null,
			i.cause?.stderr?.length ? h("details", { key: "stderr " + i.epoch }, h("summary", null, "stderr, " + plural(i.cause.stderr.length, "line")), h("pre", { class: "stderr", tabindex: 0, label: "stderr of epoch " + i.epoch }, i.cause.stderr.join("\n"))) : null));
	return h("section", { key: "history" }, head("History", (ended.length ? plural(ended.length, "end") : "no end") + " in " + span(now - first)),
		h("div", "lane-large", lane(s, first, now)),
		ended.length ? table("history", "Ended incarnations", [["#Epoch", (i) => i.epoch], ["#PID", (i) => i.pid], "Started", ["#Lived", lived], ["Result", (i) => i.served ? "served" : "did not start"], ["Cause", (i) => i.cause?.message]], ended, row, "", "folds") : null);
}

// followStderr keeps the last line in view, unless the reader has scrolled up.
export function followStderr(view) {
	const pre = document.querySelector("#detail pre.tall");
	if (pre && view.follow) pre.scrollTop = pre.scrollHeight;
}

function toggle(act, text, on) { return h("button", { type: "button", "data-act": act, "aria-pressed": String(on) }, text); }

function stderrOf(s, stderr, view) {
	if (s.transport !== "stdio" && !stderr?.total) return null;
	const lines = stderr?.lines ?? [];
	const title = head("stderr", stderr?.epoch ? "epoch " + stderr.epoch + (stderr.ended ? ", ended" : ", live") + " · " + plural(stderr.total, "line") : null);
	const some = lines.length || stderr?.first?.length;
	if (some) title.append(h("span", "spring"), h("div", "actions", toggle("follow", "Follow", view.follow), toggle("wrap", "Wrap", view.wrap), h("button", { type: "button", "data-act": "copy-stderr" }, "Copy")));
	return h("section", { key: "stderr" }, title,
		some ? h("pre", { class: "stderr tall" + (view.wrap ? "" : " unwrapped"), tabindex: 0, label: "stderr of " + s.name }, [...(stderr.first ?? []), ...(stderr.first?.length ? ["…"] : []), ...lines].join("\n"))
			: h("p", "calm", "Nothing was written."));
}

// claims are what a server can say about a tool. The second and third have no meaning for one that is read-only.
const claims = { readOnlyHint: ["read-only", "changes nothing"], destructiveHint: ["destructive", "may delete or overwrite something"], idempotentHint: ["idempotent", "has no further effect if the same call is repeated"], openWorldHint: ["open world", "reaches what is outside, such as web sites"] };

function hintsOf(tool) {
	const a = tool.definition.annotations ?? {};
	return Object.entries(claims).filter(([hint]) => a[hint] === true && (a.readOnlyHint !== true || hint === "readOnlyHint" || hint === "openWorldHint"))
		.map(([hint, [word, text]]) => h("span", { class: "tag" + (hint === "destructiveHint" ? " bad" : ""), title: "The server claims that this tool " + text + ". mcpvisor does not check it." }, word));
}

// catalogOf builds only what has changed.
function catalogOf(s, view, app) {
	const tools = view.catalog?.tools ?? [], wanted = app.wanted, added = addedTo(s.name, app);
	const signature = JSON.stringify([[...added], view.key, view.catalog === null, s.state, view.tool, search(), part("catalog", tools).length, app.controls, s.catalog, view.detail?.tools]);
	const section = h("section", { key: "catalog", "data-keep": signature });
	if (view.shown === signature) return section; // the live one stays
	view.shown = signature;
	// The tool that is being called stays while its server is down: what was typed and what
	// became of the call must not vanish with the list.
	const listed = tools.find((t) => t.originalName === view.tool);
	if (listed) view.chosen = listed;
	const chosen = listed ?? (view.chosen?.originalName === view.tool ? view.chosen : null);
	const fitting = wanted ? tools.filter((t) => t === chosen || (t.originalName + " " + (t.definition.description ?? "")).toLowerCase().includes(wanted)) : tools;
	const stats = new Map((view.detail?.tools ?? []).map((t) => [t.originalName, t]));
	const note = [fitting.length < tools.length ? fitting.length + " of " + plural(tools.length, "tool") : plural(s.catalog.tools, "tool"),
		s.catalog.tokens && tokens(s.catalog.tokens) + " for a model (estimate)", s.catalog.hidden && count(s.catalog.hidden) + " hidden"].filter(Boolean).join(", ");
	const use = (t) => stats.get(t.originalName), columns = [["Tool", (t) => t.originalName], ["#Tokens", (t) => t.tokens], ["#Calls", (t) => use(t)?.calls ?? 0], ["#Failed", (t) => failedOf(use(t) ?? {})], ["#Tool errors", (t) => use(t)?.toolErrors ?? 0], ["#p50", (t) => use(t)?.p50Ns], ["#p95", (t) => use(t)?.p95Ns]];
	const row = (t) => {
		const used = use(t);
		return h("tr", { key: t.name, class: t === chosen ? "chosen" : null },
			h("td", "grow", h("a", { href: link(s.name, t.originalName) + search(), class: "name", "aria-current": t === chosen ? "true" : null }, t.originalName), added.has(t.name) ? h("span", "fresh", " new") : null, h("span", "sub wraps hints", hintsOf(t)), h("span", "sub", t.definition.description ?? "")),
			num(count(t.tokens)), used ? [num(count(used.calls)), num(failures(used)), num(count(used.toolErrors ?? 0)), num(took(used.p50Ns)), num(took(used.p95Ns))]
				: ["0", "0", "0", "–", "–"].map((text) => h("td", "num off", text)));
	};
	const warnings = (s.catalog.warnings ?? []).map((w) => h("p", null, tell("▲", "warn", (w.list ? w.list + ": " : "") + w.text)));
	section.append(head("Tools", s.state === "ready" || rests(s) ? note : fitting.length ? "as listed before; the server is not ready" : null), ...warnings, h("div", { class: "split", key: "split" },
		h("div", null, table("catalog", "Tools of " + s.name, columns, fitting, row, s.state !== "ready" && !(rests(s) && fitting.length) ? "They are listed again when the server is ready." : wanted ? "No tool fits the filter." : view.catalog ? "This server lists no tools." : "Loading…", "folds")),
		chosen ? h("div", { class: "card", key: "form " + chosen.name }, h("h3", { id: "tool-title", tabindex: -1 }, chosen.originalName), hintsOf(chosen).length ? h("p", "note", hintsOf(chosen), " as the server claims") : null, h("p", "desc", chosen.definition.description ?? "No description."),
			listed && (s.state === "ready" || rests(s)) ? null : h("p", "note", s.state === "ready" ? "The server no longer lists this tool." : "The server is not ready. What you have typed stays."),
			app.controls ? toolForm(chosen, app.call, s.origin) : h("p", "note", "This page is read only. The program that serves it can allow calls: with --controls of mcpvisor run, or with web.WithControls."),
			h("details", null, h("summary", null, "Input schema"), h("pre", { tabindex: 0, label: "Input schema" }, jsonOf(chosen.definition.inputSchema, 2)))) : ""));
	return section;
}
