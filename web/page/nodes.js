// The fleet that this process is a node of: which nodes there are, and what no node runs.
import { fill, h, head, num, td } from "./dom.js";
import { age, count, plural, tell } from "./format.js";
import { nameOf } from "./servers.js";
import { table } from "./table.js";

function state(n, f) {
	if (n.id === f.node && f.cutOffSince) return [tell("✗", "bad", "cut off"), " for ", age(f.cutOffSince)];
	if (n.unreachableSince) return [tell("▲", "warn", "not reachable from here"), " for ", age(n.unreachableSince)];
	return n.draining ? tell("◐", "busy", "draining") : tell("●", "good", "in the fleet");
}

function row(n, f) {
	const labels = Object.entries(n.labels ?? {}).map(([k, v]) => k + "=" + v).join(" ");
	return h("tr", { key: n.id }, h("td", "grow", h("span", "name", n.id), n.id === f.node ? h("span", "sub", "this process") : null), td(state(n, f)),
		num(count(n.servers), n.capacity ? " of " + count(n.capacity) : null), num(String(n.weight)), h("td", "whole", labels || "–"), td(n.address || "–"));
}

// showNodes shows nothing without a fleet.
export function showNodes(el, f) {
	el.hidden = !f?.fleet;
	if (el.hidden) return void fill(el);
	const none = f.placements.filter((p) => !p.node), first = none.slice(0, 50);
	fill(el, head("Nodes", count(f.nodes.length) + ", generation " + count(f.generation)),
		table("nodes", "Nodes", [["Node", (n) => n.id], "State", ["#Servers", (n) => n.servers], ["#Weight", (n) => n.weight], "Labels", ["Address", (n) => n.address]], f.nodes, (n) => row(n, f), "None.", "folds"),
		none.length ? h("details", { class: "quiet", key: "unplaced", open: true }, h("summary", null, plural(none.length, "server") + (none.length > 1 ? " are" : " is") + " on no node"),
			h("ul", "alerts", first.map((p) => h("li", { key: p.server }, nameOf(p.server), " ", h("span", "note", p.reason)))), none.length > first.length ? h("p", "note", count(none.length - first.length) + " more.") : null) : null);
}
