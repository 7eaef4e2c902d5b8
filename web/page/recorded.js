// What the records of the program say: also what happened before it was started. They are searched when the reader asks,
// and again when the filter or the range of time changes.
import { fill, h, head, jsonOf, num, td } from "./dom.js";
import { at, count, plural, took } from "./format.js";
import { asked, here } from "./places.js";
import { nameOf } from "./servers.js";
import { table } from "./table.js";
import { outcome } from "./traffic.js";

const most = 200;
let shown = { key: "", kind: "", records: null }, timer = 0, search = new AbortController();

// searchAgain has the next paint ask again, though what is looked for is the same.
export function searchAgain() { shown = { ...shown, key: "" }; }

// find asks for what the address says, once the reader has stopped typing. A search that is not wanted any more ends.
function find(app, get, render) {
	const q = new URLSearchParams({ kind: here.place, q: app.wanted, limit: String(most) }), kind = here.place;
	if (asked("recorded") === "unknown" && kind === "calls") q.set("unknown", "true");
	const key = [app.instance, asked("range"), q].join(" ");
	if (key === shown.key) return;
	const first = shown.records === null;
	shown = { key, kind, records: shown.kind === kind ? shown.records : null, busy: true };
	clearTimeout(timer);
	search.abort();
	search = new AbortController();
	const { signal } = search;
	timer = setTimeout(async () => {
		if (app.since) q.set("since", new Date(Math.floor(app.since)).toISOString());
		const got = await get("records?" + q, signal).catch((error) => ({ error: String(error.message) }));
		if (shown.key === key && !signal.aborted) shown = { key, kind, records: got.records ?? [], error: got.error };
		render();
	}, first ? 0 : 300);
}

function callRow(r) {
	return h("tr", { key: r.seq, class: r.outcome === "unknown" ? "unknown" : null }, td(at(r.time)), h("td", "whole", nameOf(r.server), h("span", "mono", "/" + (r.target ?? "")), r.method === "tools/call" ? null : h("span", "tag", r.method),
		h("span", "sub", r.principal || r.client ? "for " + [r.principal, r.client].filter(Boolean).join(", ") : null), r.arguments === undefined ? null : h("span", "sub mono wraps", jsonOf(r.arguments))),
		h("td", "outcome", outcome({ ...r, kind: r.errorKind }), r.text ? h("span", "sub wraps", r.text) : null), num(took(r.tookNs)));
}

function eventRow(r) {
	const what = { start: "recording begins", end: "recording ends", gap: plural(r.lost, "record") + " found no room" }[r.kind];
	return h("tr", { key: r.seq }, td(at(r.time)), td(r.event ?? r.kind), h("td", "grow whole", what ?? r.text ?? ""));
}

// showRecorded shows the records at the places of calls and events, if there are any.
export function showRecorded(el, app, get, render) {
	el.hidden = !app.recorded;
	if (el.hidden) return void fill(el);
	const choice = asked("recorded"), calls = here.place === "calls", button = (value, text) => h("button", { type: "button", "data-recorded": value, "aria-pressed": String(choice === value) }, text);
	if (choice) find(app, get, render);
	const records = choice && shown.kind === here.place ? shown.records : null, title = calls ? "Recorded calls" : "Recorded events";
	fill(el, head(title, choice ? shown.busy ? "Searching…" : records ? count(records.length) + (records.length === most ? ", the last that fit" : " that fit") : null : "also of earlier runs; filter and time range select"), h("p", "actions", button("all", "Search the records"), calls ? button("unknown", "Unknown outcome only") : null, choice ? button("", "Close") : null),
		!records ? null : shown.error ? h("p", "calm", shown.error) : table("recorded", title, calls ? [["Ended", (r) => Date.parse(r.time)], ["Call", (r) => r.server + "/" + r.target], ["Outcome", (r) => r.outcome + " " + (r.errorKind ?? "")], ["#Took", (r) => r.tookNs]] : [["Time", (r) => Date.parse(r.time)], ["Event", (r) => r.event ?? r.kind], "What"],
			records, calls ? callRow : eventRow, shown.busy ? "Searching…" : "Nothing that fits was recorded.", "folds"));
}
