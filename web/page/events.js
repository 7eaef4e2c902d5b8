// What has happened: similar events of one server together, as the handler sums them up, or each
// event by itself.
import { fill, glyph, h, head } from "./dom.js";
import { at, count, plural, serverNow, took } from "./format.js";
import { all, asked, brief } from "./places.js";
import { nameOf } from "./servers.js";
import { more as moreOf, part } from "./table.js";
import { found } from "./traffic.js";

// marks are the marks of kinds of events; all others have a circle. The tone comes from the severity.
const marks = { ready: "●", stable: "●", standby: "◎", down: "✗", start_failed: "✗", evicted: "✗", retry: "↻", parked: "◷", auth_required: "◇", standby_lost: "▲", task_recovered: "●", task_lost: "▲", log: "≡", changed: "Δ", registered: "+", unregistered: "−", waiting: "◔", asleep: "☾", stopped: "■", group_failed: "✗" };
const tones = { error: "bad", warning: "warn" };

// groups are what a reader can select, by the group of the handler. Messages of servers are never
// summed up.
const groups = [["", "all kinds"], ["configuration", "configuration"], ["lists", "lists"], ["given_up", "out of service"], ["ends", "ends and starts"], ["tasks", "tasks"], ["messages", "messages"]];

const keptSummaries = 2000, shownEvents = 60, briefly = 8;

// takeSummaries adds those that have changed to those that are kept.
export function takeSummaries(all, answer) {
	for (const s of answer.summaries) all.set(s.seq, s);
	if (all.size > keptSummaries) for (const s of inOrder(all).slice(0, all.size - keptSummaries)) all.delete(s.seq);
}

function inOrder(all) { return [...all.values()].sort((a, b) => a.last.seq - b.last.seq); }

// changedNames names what a server lists otherwise than before.
function changedNames(change) {
	const all = (key) => Object.values(change).flatMap((list) => list[key] ?? []).map((name) => key + " " + name);
	return change ? [...all("added"), ...all("removed"), ...all("changed")].join("; ") : null;
}

// newFor is how long a tool counts as new.
const newFor = 3600e3;

// addedTo returns the names that a server has added to its lists within the last hour.
export function addedTo(server, app) {
	const all = [...app.events, ...[...app.summaries.of.values()].map((s) => s.last)];
	return new Set(all.filter((e) => e.server === server && e.change && serverNow() - Date.parse(e.time) < newFor).flatMap((e) => Object.values(e.change).flatMap((list) => list.added ?? [])));
}

// lines are lines of stderr, the last of which says most.
function lines(stderr, label) { return h("pre", { class: "stderr", tabindex: 0, label }, stderr.join("\n")); }

function mark(kind, severity) {
	const sign = marks[kind] ?? "○";
	return glyph(sign, tones[severity] ?? (sign === "●" || sign === "◎" ? "good" : "off"));
}

function single(e) {
	const what = e.text.split("; stderr: ")[0], names = changedNames(e.change), stderr = e.cause?.stderr ?? [];
	return h("li", { key: e.seq }, at(e.time), mark(e.kind, e.severity), h("span", "text", what + (e.startTookNs ? ", started in " + took(e.startTookNs) : ""),
		names ? h("span", { class: "sub mono", title: names }, names) : null, more("stderr " + e.seq, stderr.length ? plural(stderr.length, "line") + " of stderr" : null, () => lines(stderr, "stderr before this event"))));
}

// more is what a reader can unfold.
function more(key, title, build) { return title ? h("details", { key }, h("summary", null, title), build()) : null; }

function summary(s, app, server) {
	const e = s.last, names = changedNames(e.change), stderr = e.cause?.stderr ?? [], text = s.text.startsWith(e.server + " ") ? s.text.slice(e.server.length + 1) : s.text;
	const times = [s.count > 1 ? [at(s.began), " to ", at(e.time)] : null, s.ready ? [e.group === "configuration" ? "ready " : "ready again ", at(s.ready)] : null].filter(Boolean);
	const kept = s.count > 1 ? app.events.filter((one) => one.server === e.server && one.seq >= s.seq && one.seq <= Math.max(e.seq, s.updated) && !one.fromServer && one.severity !== "debug").slice(-20).reverse() : [];
	const title = [stderr.length ? plural(stderr.length, "line") + " of stderr" : null, kept.length ? "the last " + plural(kept.length, "event") : null].filter(Boolean).join(", ");
	return h("li", { key: "s" + s.seq }, at(e.time), mark(e.kind, e.severity), h("span", "text", server ? null : [e.kind === "group_failed" ? e.server : nameOf(e.server), " "], text + (e.startTookNs ? ", started in " + took(e.startTookNs) : ""),
		times.length ? h("span", "sub", times.map((t, i) => [i ? "; " : null, t])) : null, names ? h("span", { class: "sub mono", title: names }, names) : null,
		more("more " + s.seq, title, () => [stderr.length ? lines(stderr, "stderr before the last end of " + e.server) : null,
			kept.length ? h("ol", { class: "kept", label: "Single events" }, kept.map((one) => h("li", { key: one.seq }, at(one.time), " ", one.text.split("; stderr: ")[0]))) : null])));
}

function pick(id, title, options, chosen) {
	return h("span", { class: "pick", key: id }, h("select", { "data-pick": id, label: title }, options.map(([value, text]) => h("option", { value, key: "o" + value, selected: value === chosen }, text))));
}

// showEvents shows what has happened to one server, or to those that a filter has left; null
// means all. A server that is no longer registered is found by its name.
export function showEvents(el, app, server, only) {
	const { lost, summaries: sum } = app, ofGroup = groups.some(([g]) => g === asked("group")) ? asked("group") : "", ofServer = server || only ? "" : asked("server"), alone = asked("view") === "single";
	const mine = (e, text) => (server ? e.server === server : found(app, only, e.server, [text]) && (!ofServer || e.server === ofServer)) && (!ofGroup || e.group === ofGroup) && Date.parse(e.time) >= app.since;
	const events = app.events.filter((e) => mine(e, e.text)).reverse(), sums = inOrder(sum.of).filter((s) => mine(s.last, s.text)).reverse(), some = alone ? events : sums;
	const names = [...new Set([...app.servers.keys(), ...[...sum.of.values()].map((s) => s.last.server), ...(ofServer ? [ofServer] : [])])].sort();
	const title = head("Events", [lost && alone ? h("strong", "warn", plural(lost, "event") + " lost: too old, or too many at once") : alone ? plural(events.length, "event") + " kept here"
		: sum.started ? ["since ", at(sum.started), sum.dropped ? ", " + count(sum.dropped) + " older ones dropped" : null] : null, all("events", "All events")]);
	if (!brief()) title.append(h("span", "spring"), pick("group", "Kind of events", alone ? groups : groups.slice(0, -1), ofGroup), server || only ? "" : pick("server", "Server of events", [["", "all servers"], ...names.map((n) => [n, n])], ofServer),
		h("button", { type: "button", "data-act": "single", "aria-pressed": String(alone) }, "One by one"));
	const shown = brief() ? some.slice(0, briefly) : part("events", some, shownEvents), loading = alone ? lost === null : !sum.started;
	fill(el, title,
		shown.length ? h("ol", { class: "events", tabindex: 0, label: "Events" }, shown.map((one) => alone ? single(one) : summary(one, app, server))) : h("p", "calm", loading ? "Loading…" : alone && sums.length ? "Older ones are dropped here; what has happened in short still names them." : only || ofGroup || ofServer || app.since ? "No event that fits." : "No event yet."),
		brief() ? null : moreOf("events", "Events", some.length, shownEvents));
}
