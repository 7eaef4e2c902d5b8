// The clients of the gateway: who they are, what they do, and what they may call.
import { fill, h, head, num, td } from "./dom.js";
import { age, count, fits, plural, tell } from "./format.js";
import { link } from "./servers.js";
import { table } from "./table.js";

// label names a client as the record of a call does.
function label(s) { return s.name ? [s.name, s.version].filter(Boolean).join(" ") : s.principal || "not named yet"; }

function state(s) {
	if (s.ended) return tell("○", "off", "ended");
	if (s.inFlight) return tell("◐", "busy", count(s.inFlight) + " in flight");
	return s.streams ? tell("●", "good", plural(s.streams, "stream")) : tell("○", "off", "idle");
}

// tasks says how many tasks a client has open; "Open tasks" has which.
function tasks(s) { return s.tasks ? h("span", "sub", plural(s.tasks, "open task")) : null; }

function task({ s, t, i }) {
	return h("tr", { key: "task " + s.number + " " + i }, h("td", "name", label(s)), h("td", null, h("a", { href: link(t.server), class: "name" }, t.server)), td(t.tool || "not known"), td(t.state), td(age(t.since)));
}

// shorten lists a few names.
function shorten(names) { return names.slice(0, 5).join(", ") + (names.length > 5 ? " and " + count(names.length - 5) + " more" : ""); }

function row(s) {
	return h("tr", { key: s.number }, h("td", "grow", h("span", "name", label(s)), h("span", "sub", [s.transport, s.protocol].filter(Boolean).join(", ")), s.copies?.length ? h("span", "sub", "own " + plural(s.copies.length, "server") + ": " + shorten(s.copies)) : null),
		td(s.principal || "–"), td(s.profile || "everything"), h("td", null, state(s), tasks(s)), num(count(s.calls)), num(s.failed ? h("strong", "warn", count(s.failed)) : "0"),
		td(s.requests || s.streams ? age(s.last) : "–"), td(age(s.since)));
}

function offer(o, sessions) {
	const mine = sessions.filter((s) => (s.profile ?? "") === o.profile), principals = [...new Set(mine.map((s) => s.principal).filter(Boolean))];
	return h("tr", { key: "profile " + o.profile }, h("td", null, h("span", "name", o.profile || "everything"), principals.length ? h("span", "sub", principals.join(", ")) : null),
		h("td", "whole", o.servers.length ? o.servers.slice(0, 12).map((name, i) => [i ? " " : null, h("a", { href: link(name), class: "name" }, name)]) : "none", o.servers.length > 12 ? " and " + count(o.servers.length - 12) + " more" : null),
		num(count(o.tools)), num(count(o.prompts)), num(count(o.resources + o.templates)), num(o.withheld ? h("strong", "warn", count(o.withheld)) : "0"));
}

// showClients lists the clients that fit a filter.
export function showClients(el, c, wanted) {
	const refused = Object.entries(c?.refused ?? {}).filter(([, n]) => n), sessions = c?.sessions ?? [];
	if (!c?.gateway) return void fill(el, head("Clients"), h("p", "calm", c ? "This process offers its servers to no clients: it has no gateway." : "Loading…"));
	const shown = wanted ? sessions.filter((s) => fits(wanted, label(s), s.principal ?? "", s.profile ?? "", s.transport ?? "")) : sessions;
	const open = sessions.flatMap((s) => (s.openTasks ?? []).map((t, i) => ({ s, t, i })));
	const more = c.total - sessions.filter((s) => s.number).length;
	fill(el, head("Clients", [count(c.total), " within 15 minutes", more > 0 ? ", " + count(more) + " of them not listed" : null]),
		table("clients", "Clients", [["Client", label], ["Principal", (s) => s.principal], ["Offered", (s) => s.profile || "everything"], ["State", (s) => s.ended ? 2 : s.inFlight || s.streams ? 0 : 1], ["#Calls", (s) => s.calls], ["#Failed", (s) => s.failed], ["Last request", (s) => s.requests || s.streams ? -Date.parse(s.last) : null], ["Since", (s) => -Date.parse(s.since)]], shown, row, wanted && sessions.length ? "No client fits the filter." : "None within 15 minutes.", "folds"),
		refused.length ? h("p", "note", "HTTP requests refused: " + refused.map(([why, n]) => why + " " + count(n)).join(", ") + ".") : null,
		open.length ? h("details", { class: "quiet", key: "tasks" }, h("summary", null, "Open tasks"),
			table("tasks", "Open tasks", [["Client", (o) => label(o.s)], ["Server", (o) => o.t.server], ["Tool", (o) => o.t.tool], ["State", (o) => o.t.state], ["Since", (o) => -Date.parse(o.t.since)]], open, task, "None.", "folds")) : null,
		h("details", { class: "quiet", key: "offers" }, h("summary", null, "Who may call what"),
			table("offers", "Who may call what", [["Profile", (o) => o.profile], "Servers", ["#Tools", (o) => o.tools], ["#Prompts", (o) => o.prompts], ["#Resources", (o) => o.resources + o.templates], ["#Withheld", (o) => o.withheld]], c.offers ?? [], (o) => offer(o, sessions), "No gateway has begun.", "folds")));
}
