// The state of the page, and how it is kept up to date: an event stream says that something
// has changed, and what has changed is fetched.
import { fill, h, head } from "./dom.js";
import { at, count, fits, plural, rests, serverNow, setClock, span, stateOf, states, tell, tick, tickCountdowns, took } from "./format.js";
import { all, ask, asked, brief, here, readAddress, showPlaces, titleOf } from "./places.js";
import { arrange, byName, byPlace, inTrouble, showAttention, showHeads, showRows, showSummary, showTree } from "./servers.js";
import { showApprovals } from "./approvals.js";
import { showClients } from "./clients.js";
import { showNodes } from "./nodes.js";
import { searchAgain, showRecorded } from "./recorded.js";
import { showEvents, takeSummaries } from "./events.js";
import { drawMore, forget, more, orderOf, part } from "./table.js";
import { showCalls, showFound, showInFlight, showLists, showTools, showUnfinished, unfolded } from "./traffic.js";
import { consent, followStderr, showDetail } from "./detail.js";
import { copyText } from "./form.js";
import { bindKeys } from "./keys.js";
import { takeUsage } from "./usage.js";

// none are the summaries before they are read.
function none() { return { of: new Map(), seq: 0, started: null, dropped: 0 }; }

const $ = (id) => document.getElementById(id);
const app = { loaded: false, instance: "", servers: new Map(), groups: [], attention: [], approvals: [], inFlight: [], tasks: [], unfinished: [], moreUnfinished: 0, recent: [], unknown: [], polled: false, since: 0, tools: null, lists: null, events: [], summaries: none(), clients: null, fleet: null, placed: null, usage: new Map(), usageSeq: 0, lost: null, controls: false, call };
const view = { name: null, tool: null, detail: null, catalog: null, key: "", follow: true, wrap: true };
const refreshEvery = 100, refreshBurst = 5, pollEvery = 1000, usageEvery = 5000, keptEvents = 400, keptCalls = 500, firstRows = 40, briefRows = 12, listsEvery = 5000, maxLists = 10000;

async function get(path, signal) {
	const answer = await fetch("api/" + path, { headers: { Accept: "application/json" }, signal });
	if (!answer.ok) throw new Error(path + ": " + answer.status);
	if (!app.loaded && path === "status") performance.mark("status");
	return answer.json();
}

async function post(path, body, signal) {
	const answer = await fetch("api/" + path, { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
	const text = await answer.text();
	return { ...JSON.parse(text), text };
}

async function call(body, signal) {
	const answer = await post("call", body, signal);
	poll();
	return answer;
}

// Status. A change is fetched at once, unless several were just fetched.
const changed = new Set(), fetched = []; // fetched: when the last refreshBurst were
let fetching = false, stale = false, refreshTimer = 0, current = Date.now(), lostSince = 0;

function refresh(name) {
	changed.add(name ?? "");
	if (fetching || refreshTimer) return;
	const wait = fetched.length < refreshBurst ? 0 : fetched[0] + refreshBurst * refreshEvery - performance.now();
	refreshTimer = setTimeout(fetchStatus, Math.max(0, wait));
}

async function fetchStatus() {
	refreshTimer = 0;
	fetching = true;
	fetched.push(performance.now());
	if (fetched.length > refreshBurst) fetched.shift();
	const names = changed.has("") || changed.size > 20 || !app.loaded ? [] : [...changed];
	changed.clear();
	try {
		const s = await get("status" + (names.length ? "?" + names.map((n) => "server=" + encodeURIComponent(n)).join("&") : ""));
		stale = false;
		current = Date.now();
		takeStatus(s);
	} catch { stale = true; } // the next poll refreshes again
	showLoss();
	fetching = false;
	if (changed.size) refresh([...changed][0]);
}

function takeStatus(s) {
	if (app.instance && app.instance !== s.instance) { // another process: its numbers begin again
		app.events = [];
		app.summaries = none();
		app.clients = app.fleet = app.placed = app.tools = app.lists = null;
		app.lost = null;
		app.recent = [];
		app.usage.clear();
		app.usageSeq = 0;
		view.key = "";
	}
	app.instance = s.instance;
	setClock(s.now);
	const news = [];
	for (const one of s.servers) {
		const before = app.servers.get(one.name);
		if (before && before.state !== one.state) news.push(one);
		one.seen = Date.parse(s.now); // when its durations were counted
		app.servers.set(one.name, one);
	}
	const registered = new Set(s.names);
	for (const name of app.servers.keys()) if (!registered.has(name)) app.servers.delete(name);
	app.attention = s.attention;
	app.groups = s.groups ?? [];
	app.controls = s.controls;
	app.recorded = s.recorded;
	const first = !app.loaded;
	app.loaded = true;
	if (first && view.name !== null) pollUsage(); // the overview comes before its numbers
	$("title").textContent = s.title;
	$("version").textContent = "mcpvisor " + s.version;
	announce(news);
	followRestarts();
	render();
	fetchDetail();
}

// showLoss shows a banner over everything, while neither the status can be read nor events
// arrive: then the process has ended, or cannot be reached. What the page shows is of before.
function showLoss() {
	const lost = stale && $("link").dataset.link === "lost";
	if (lost === Boolean(lostSince)) return;
	lostSince = lost ? current : 0;
	app.cut = lost;
	document.body.classList.toggle("lost", lost);
	$("loss").hidden = !lost;
	fill($("loss"), lost ? ["The connection to " + $("title").textContent + " was lost at ", at(new Date(current).toISOString()), ". Its process may have ended. ", app.loaded ? "What follows is from before. " : null, "The page connects again by itself."] : null);
	render();
}

// announce tells screen readers about servers that became ready, or ended.
function announce(news) {
	const loud = news.filter((s) => stateOf(s.state)[2] !== "busy" && !rests(s));
	if (!loud.length) return;
	const text = loud.length > 3 ? plural(loud.length, "server") + " changed" : loud.map((s) => s.name + " is " + stateOf(s.state)[1] + (s.state !== "ready" && s.lastCause ? ": " + s.lastCause.message : "")).join(". ");
	$("news").textContent = text;
}

let polling = false;

async function poll() {
	if (polling || document.hidden) return;
	if (!app.summaries.started && app.loaded || app.summaries.seq < (lastSeq ?? 0)) summarize();
	if (stale || $("link").dataset.link !== "live" || app.groups.some((g) => stateOf(g.state)[2] === "busy")) refresh(); // no event says what has changed
	if (!app.loaded) return;
	polling = true;
	try {
		const c = await get("calls?after=" + (app.recent.at(-1)?.seq ?? 0));
		const active = c.recent.length > 0 || c.inFlight.length > 0 || app.inFlight.length > 0 || app.tasks.length > 0 || c.tasks?.length > 0;
		app.recent = app.recent.concat(c.recent).slice(-keptCalls);
		app.inFlight = c.inFlight;
		app.tasks = c.tasks ?? [];
		const decided = app.approvals.length;
		app.approvals = c.approvals ?? [];
		if (decided !== app.approvals.length) refresh(); // what needs attention
		if (decided || app.approvals.length) render();
		app.unknown = c.unknown;
		const before = app.unfinished.length;
		app.unfinished = c.unfinished ?? [];
		app.moreUnfinished = c.moreUnfinished ?? 0;
		const first = !app.polled;
		app.polled = true;
		if (shows("clients")) {
			app.clients = await get("clients");
			render();
		}
		if (app.fleet?.fleet ?? true) {
			app.fleet = await get("nodes");
			app.placed = app.fleet.fleet ? new Map(app.fleet.placements.map((p) => [p.server, p])) : null;
			if (app.fleet.fleet) render();
		}
		const seq = app.recent.at(-1)?.seq ?? 0;
		if (shows("tools") && (seq !== app.toolsSeq || !app.tools?.length)) {
			app.tools = (await get("tools")).tools;
			app.toolsSeq = seq;
		}
		if (await readLists() || first) render();
		if (active || before !== app.unfinished.length) {
			for (const one of [...c.recent, ...c.inFlight, ...app.tasks]) changed.add(one.server);
			refresh(changed.values().next().value);
			render();
		}
		if (view.name) fetchDetail();
	} catch { /* the next poll tries again */ }
	polling = false;
}

// readLists reads what all servers list, when a place shows it and it may have changed. It returns whether it did.
let listed = { key: "", at: -Infinity };

function kindsShown() { return shows("tools") ? "tools" : shows("resources") ? "resources&kind=prompts" : null; }

async function readLists() {
	const kinds = kindsShown();
	if (!kinds) return false;
	const key = JSON.stringify([app.instance, kinds, [...app.servers.values()].map((s) => [s.name, s.gen, s.state === "ready", s.catalog])]), other = !listed.key.startsWith(JSON.stringify([app.instance, kinds]).slice(0, -1));
	if (listed.key === key || !other && performance.now() - listed.at < listsEvery) return false;
	if (other) app.lists = null;
	const answer = await get("search?limit=" + maxLists + "&kind=" + kinds);
	if (kinds !== kindsShown()) return false; // the reader has gone elsewhere
	app.lists = answer;
	listed = { key, at: performance.now() };
	return true;
}

// pullSummaries reads what has happened in short, as far as it has changed: at once when an event
// says so, but not more often than a few times a second.
let summing = 0;

function summarize() { summing ||= setTimeout(pullSummaries, app.summaries.started ? 250 : 0); }

async function pullSummaries() {
	const before = app.summaries;
	try {
		const answer = await get("events/summaries?after=" + before.seq);
		if (app.summaries === before && (!app.instance || answer.instance === app.instance)) {
			takeSummaries(before.of, answer);
			Object.assign(before, { seq: answer.seq, started: answer.started, dropped: answer.dropped ?? 0 });
			render();
		}
	} catch { /* the next event or poll asks again */ }
	summing = 0;
}

// pollUsage reads the samples that are new.
async function pollUsage() {
	if (!app.loaded || document.hidden || stale) return;
	try {
		const instance = app.instance, answer = await get("usage?after=" + app.usageSeq);
		if (answer.instance !== instance) return;
		app.usageSeq = takeUsage(app.usage, answer);
		render();
	} catch { /* the next poll tries again */ }
}

// fetchDetail reads what only the page of a server shows. The catalog is read again only
// when it may have changed.
const detailing = new Set(); // names that are being fetched

async function fetchDetail() {
	const name = view.name, s = app.servers.get(name), path = "servers/" + encodeURIComponent(name);
	if (!s || detailing.has(name)) return;
	detailing.add(name);
	try {
		const detail = await get(path);
		if (view.name !== name) return;
		view.detail = detail;
		const key = [app.instance, name, s.gen, s.epoch, s.state, JSON.stringify(s.catalog)].join(" ");
		// While a server flaps, its tools stay in the list.
		if (view.key !== key && (stateOf(s.state)[2] !== "busy" && s.state !== "backoff" || !view.catalog)) {
			const catalog = await get(path + "/tools");
			if (view.name !== name) return;
			view.catalog = catalog;
			view.key = key;
		}
		render();
	} catch { /* it was removed; the status will say so */ }
	detailing.delete(name);
}

// The event stream. The browser reconnects by itself with Last-Event-ID; when it gives up,
// the page connects again and continues after the last event.
// A hidden page closes it: browsers allow few connections to one host.
let lastSeq = null, source = null;

function connect() {
	if (document.hidden || source && source.readyState !== EventSource.CLOSED) return;
	source = new EventSource("api/events/stream" + (lastSeq === null ? "?last=" + keptEvents : "?after=" + lastSeq));
	const lost = () => {
		link("lost", "reconnecting");
		refresh();
		if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
	};
	source.onopen = () => link("live", "live");
	source.onerror = lost;
	source.addEventListener("hello", (e) => {
		if (app.instance && JSON.parse(e.data).instance !== app.instance) app.events = [];
		app.lost ??= 0;
		render();
		refresh();
	});
	source.addEventListener("missed", (e) => {
		const { missed } = JSON.parse(e.data);
		app.lost = (app.lost ?? 0) + missed;
		refresh();
	});
	source.onmessage = (e) => {
		const event = JSON.parse(e.data);
		lastSeq = event.seq;
		app.events.push(event);
		if (app.events.length > keptEvents) app.events.splice(0, app.events.length - keptEvents);
		if (!event.fromServer) {
			refresh(event.server);
			if (app.summaries.started) summarize();
		}
		render();
	};
}

function link(state, text) {
	$("link").dataset.link = state;
	$("link-text").textContent = text;
}

// route shows the place in the address. Other fragments are places on the page.
function route() {
	const left = here.name, from = here.place;
	if (!readAddress()) return;
	const moved = here.name !== left || here.place !== from, next = here.name;
	if (next !== left) Object.assign(view, { detail: null, catalog: null, chosen: null, key: "", shown: "", low: undefined, consent: null });
	if (moved) {
		forget();
		unfolded.clear();
		arranged = "";
	}
	Object.assign(view, { name: next, tool: here.tool, focus: Boolean(here.tool) && app.loaded });
	document.body.dataset.place = next !== null ? "server" : here.place || "overview";
	$("overview").hidden = next !== null;
	$("detail").hidden = next === null;
	$("place").textContent = titleOf("#/" + here.place);
	$("filter").value = asked("q");
	$("filter").placeholder = "Filter " + (next !== null ? "tools" : here.place || "servers");
	$("order").value = asked(orderOf("servers")).replace("-", "") || "name";
	$("window").value = String(range());
	render(true);
	if (next) fetchDetail();
	else if (app.loaded && (shows("clients") || shows("tools") || shows("resources"))) poll();
	if (moved && !view.tool) scrollTo(0, 0);
	if (moved && app.loaded && !view.tool) { // the focus goes where the reader goes
		const row = left && document.querySelector("#server-rows > [data-key=" + CSS.escape(left) + "] a.name");
		const target = next !== null ? document.querySelector("#detail h1") : row?.offsetParent ? row : $("place");
		target.focus({ preventScroll: target !== row });
	}
}

// shows tells whether the reader is in a place, and not at a server.
function shows(place) { return here.name === null && here.place === place; }

// range is the range of time in the address in seconds; 0 is all that is kept.
function range() { return [300, 3600, 21600, 86400].find((size) => String(size) === asked("range")) ?? 0; }

let frame = 0;

function render(now) {
	if (now && frame) cancelAnimationFrame(frame);
	if (now) return paint();
	frame ||= requestAnimationFrame(paint);
}

function paint() {
	frame = 0;
	const first = !document.documentElement.dataset.loaded; // what is on the screen comes first
	const listing = here.name === null && (here.place === "" || here.place === "servers"), by = asked(orderOf("servers"));
	const state = listing && Object.hasOwn(states, asked("state")) ? asked("state") : null, wanted = app.wanted = asked("q").trim().toLowerCase();
	const arrangement = [here.place, by, app.loaded, app.usage.size > 0].join();
	if (here.name === null && arranged !== arrangement) {
		arranged = arrangement;
		arrange([...app.servers.values()], by, app.usage);
	}
	const servers = [...app.servers.values()].sort(byPlace), filtered = here.name === null && Boolean(wanted || state);
	const shown = filtered ? servers.filter((s) => (!state || s.state === state) && fits(wanted, s.name, s.state, s.target, s.transport, app.placed?.get(s.name)?.node ?? "")) : servers;
	app.ofState = state ? new Set(servers.filter((s) => s.state === state).map((s) => s.name)) : null;
	app.since = here.name === null && range() ? serverNow() - range() * 1000 : 0;
	showSummary($("summary"), servers, state);
	showPlaces($("places"), app.attention);
	const urgent = app.attention.filter((a) => a.severity !== "notice").length;
	document.title = (urgent ? "(" + urgent + ") " : "") + [here.tool, here.name, $("place").textContent, $("title").textContent].filter(Boolean).join(" · ");
	if ($("tree-box").open) {
		const tree = listing ? shown : servers, out = showTree($("tree"), (first ? tree.slice(0, firstRows) : tree).toSorted(byName), app.groups, here.name, first || listing && filtered);
		fill($("tree-more"), out ? [count(out) + " more: ", h("a", { href: "#/servers" }, "all servers")] : null);
	}
	if (here.name !== null) {
		showDetail($("detail"), here.name, app.servers.get(here.name), view, app);
		followStderr(view);
		if (app.loaded && !app.polled) poll();
		const title = view.focus && $("tool-title");
		if (title) { // the tool was chosen: its form is next
			view.focus = false;
			document.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
			title.focus();
		}
		return;
	}
	const only = filtered ? new Set(shown.map((s) => s.name)) : null, controls = app.controls && !lostSince;
	const draw = {
		attention: (el) => {
			const entries = only ? app.attention.filter((a) => (a.servers ?? [a.server]).some((name) => only.has(name)) || wanted && !state && fits(wanted, a.text)) : app.attention;
			if (entries.length < app.attention.length && !entries.length) fill(el, head("Needs attention"), h("p", "calm", "Nothing that fits the filter. " + (app.attention.length > 1 ? count(app.attention.length) + " entries are" : "One entry is") + " about other servers."));
			else if (app.loaded) showAttention(el, entries, controls, servers, lostSince > 0);
		},
		approvals: (el) => showApprovals(el, app.approvals, controls),
		fleet: () => showServers(servers, shown, state, filtered, first),
		found: (el) => {
			search(wanted);
			showFound(el, wanted && app.found?.wanted === wanted ? app.found : null);
		},
		flight: (el) => showInFlight(el, app, null, only),
		unfinished: (el) => showUnfinished(el, app, null, only),
		nodes: (el) => showNodes(el, filtered ? null : app.fleet),
		clients: (el) => showClients(el, app.clients, wanted),
		tools: (el) => showTools(el, app),
		lists: (el) => showLists(el, app),
		calls: (el) => showCalls(el, app, null, only),
		events: (el) => showEvents(el, app, null, only),
		recorded: (el) => showRecorded(el, app, get, render),
	};
	for (const [id, show] of Object.entries(draw)) {
		const el = $(id);
		el.hidden = !el.dataset.in.split(" ").includes(here.place || "overview");
		if (!el.hidden) show(el);
		else if (id !== "fleet") fill(el);
	}
	if (app.loaded && first) {
		document.documentElement.dataset.loaded = "true";
		setTimeout(() => { // after this frame
			performance.measure("first servers", "status");
			pollUsage();
			poll();
			summarize();
			render();
		});
	}
}

let arranged = ""; // what the rows were arranged for

// showServers shows the table of servers. The overview has a few: those in trouble, where there are many.
function showServers(servers, shown, state, filtered, first) {
	const few = brief() && shown.length > briefRows, chosen = few && !filtered && !asked(orderOf("servers")) ? shown.filter(inTrouble) : shown;
	const rows = few ? chosen.slice(0, briefRows) : first ? shown.slice(0, firstRows) : part("servers", shown);
	const seconds = showRows($("server-rows"), rows, range(), app.usage, app.placed);
	showHeads($("server-heads"));
	$("servers").hidden = few && !rows.length;
	fill($("servers-more"), few ? (rows.length ? null : h("p", "calm", "No server is in trouble.")) : more("servers", "Servers", shown.length));
	$("servers-note").textContent = filtered ? count(shown.length) + " of " + plural(servers.length, "server") + (state ? ", " + stateOf(state)[1] : "") : servers.length ? plural(servers.length, "server") + (few ? ", " + (chosen === shown ? "the first " + rows.length : count(chosen.length) + " not ready" + (rows.length < chosen.length ? ", the first " + rows.length : "")) : "") : "";
	fill($("servers-all"), few ? all("servers", "All servers") : null);
	$("show-all").hidden = !filtered;
	$("window").options[0].textContent = "auto (" + span(seconds * 1000) + ")";
}

// search looks for tools of all servers, once the reader has stopped typing.
let searchTimer = 0, searched = "";

function search(wanted) {
	if (wanted === searched) return;
	searched = wanted;
	clearTimeout(searchTimer);
	if (wanted.length < 2 || wanted.length > 60) return;
	searchTimer = setTimeout(async () => {
		const found = await get("search?q=" + encodeURIComponent(wanted)).catch(() => null);
		if (found && searched === wanted) {
			app.found = { ...found, wanted };
			render();
		}
	}, 200);
}

// showState shows the servers of one state, or of all.
function showState(state) {
	if (!shows("servers")) return void (location.hash = "#/servers?state=" + encodeURIComponent(state));
	ask("state", state === asked("state") ? "" : state);
	render(true);
}

function clearFilter() {
	$("filter").value = "";
	ask("q", "");
	ask("state", "");
	render(true);
}

// Restarts. What became of one is shown until the next, or until it is closed.
const restarts = new Map(); // by server: its epoch and state before it
let answerTimer = 0;

function answer(tone, text, seconds, ...more) {
	clearTimeout(answerTimer);
	$("answer").hidden = !text;
	fill($("answer"), text ? [tell(tone === "good" ? "✓" : tone === "bad" ? "✗" : "◐", tone, text), ...more, h("button", { type: "button", id: "dismiss", label: "Close this message" }, "×")] : null);
	if (seconds) answerTimer = setTimeout(answer, seconds * 1000);
}

// batch is what was asked for together: how many servers, how many of them are ready again, and
// what became of the others.
let batch = { total: 0, good: 0, bad: [] };

// askRestart restarts servers, but first asks the reader if it would end calls in flight.
function askRestart(sure, ...names) {
	const ends = endedCalls(...names);
	if (sure || !ends) return void restart(sure === "drain", ...names);
	const servers = JSON.stringify(names), what = names.length > 1 ? plural(names.length, "server") : names[0];
	answer("warn", "A restart of " + what + " fails " + ends + ". The server may have executed them.", 0,
		h("button", { type: "button", "data-act": "restart-all", "data-servers": servers, "data-sure": "true" }, "Restart " + what), h("button", { type: "button", "data-act": "restart-all", "data-servers": servers, "data-sure": "drain" }, "Restart after they end"));
}

// askStop stops a server, but first asks the reader if it would end calls in flight.
async function askStop(sure, name) {
	const ends = endedCalls(name);
	if (!sure && ends) {
		answer("warn", "A stop of " + name + " fails " + ends + ". The server may have executed them.", 0,
			h("button", { type: "button", "data-act": "stop", "data-server": name, "data-sure": "true" }, "Stop " + name));
		return;
	}
	answer("busy", "Stop of " + name + " is under way …");
	const got = await operate(name, "stop");
	if (got.error) answer("bad", "The stop of " + name + " failed: " + got.error.message);
	else answer("good", name + " is stopped. A reload leaves it stopped: only Start runs it again.", 15);
	refresh();
}

// start starts a server, or what has failed or is stopped in a group.
async function start(name) {
	answer("busy", "Start of " + name + " is under way …");
	const got = await operate(name, "start");
	if (got.error) answer("bad", "The start of " + name + " failed: " + got.error.message);
	else answer("good", "Start of " + name + " is under way.", 8);
	refresh();
}

// decide approves or denies a call that waits.
async function decide(id, approve) {
	const got = await post("approvals", JSON.stringify({ id, approve })).catch((error) => ({ error }));
	if (got.error) answer("bad", "The decision failed: " + got.error.message);
	else answer("good", "The call is " + (approve ? "approved." : "denied."), 8);
	app.approvals = app.approvals.filter((a) => a.id !== id);
	render();
	poll();
}

function operate(name, what) { return post("servers/" + encodeURIComponent(name) + "/" + what, "{}").catch((error) => ({ error })); }

// endedCalls says which calls a restart or stop of servers would end; empty if none.
function endedCalls(...names) {
	const n = app.inFlight.filter((c) => names.includes(c.server)).length;
	return n ? plural(n, "call") + " in flight" : "";
}

// restart restarts servers, with drain after their calls in flight have ended.
async function restart(drain, ...names) {
	batch = { total: names.length, good: 0, bad: [] };
	restarts.clear();
	answer("busy", "Restart of " + (names.length > 1 ? plural(names.length, "server") : names[0]) + (drain ? " waits for the calls in flight …" : " is under way …"));
	await Promise.all(names.map(async (name) => {
		const s = app.servers.get(name);
		restarts.set(name, { epoch: s?.epoch, since: s?.since, began: performance.now() });
		const got = await operate(name, drain ? "restart?drain=true" : "restart");
		if (got.error && restarts.delete(name)) ended("bad", "The restart of " + name + " failed: " + got.error.message);
	}));
	refresh();
}

// ended shows what became of a restart. Of several, it shows how many are ready, and the first that is not.
function ended(tone, text) {
	if (tone === "good") batch.good++;
	else batch.bad.push(text);
	if (batch.total > 1) text = batch.good + " of " + plural(batch.total, "server") + " are ready again." + (batch.bad.length ? " " + batch.bad[0] : "");
	tone = batch.bad.length ? "bad" : restarts.size ? "busy" : "good";
	answer(tone, text, tone === "good" ? 15 : 0);
}

// followRestarts says what became of restarts.
function followRestarts() {
	for (const [name, r] of restarts) {
		const s = app.servers.get(name), tone = s && stateOf(s.state)[2];
		if (s && (s.epoch === r.epoch && s.since === r.since || tone === "busy")) continue;
		restarts.delete(name);
		if (tone === "good") ended(tone, name + " is ready again after " + took((performance.now() - r.began) * 1e6) + ", as epoch " + s.epoch + ".");
		else ended("bad", s ? name + " did not become ready: it is " + stateOf(s.state)[1] + (s.lastCause ? ". " + s.lastCause.message : ".") : name + " is no longer registered.");
	}
}

// copy copies the text of an element, and then says what it is.
async function copy(el, what) {
	if (await copyText(el)) answer("good", "Copied " + what + ".", 8);
	else answer("warn", "The browser does not let the page copy. The text is selected: press Ctrl+C.", 15);
}

function copyStderr() {
	const pre = document.querySelector("#detail pre.tall");
	copy(pre, plural(pre.textContent.split("\n").length, "line") + " of stderr");
}

// authorize begins the authorization of this program at a server, in the browser of the reader.
async function authorize(name) {
	const to = "servers/" + encodeURIComponent(name) + "/authorize", fail = (error) => answer("bad", "The authorization at " + name + " failed: " + error.message);
	const began = await post(to, "{}").catch((error) => ({ error }));
	if (began.error) return fail(began.error);
	if (!/^https?:/.test(began.url)) return fail({ message: "its address is no web page" });
	if (here.name !== name) return;
	view.consent = consent(name, began.url, async (redirect) => {
		answer("busy", "The authorization at " + name + " is being completed …");
		const got = await post(to, JSON.stringify({ redirect })).catch((error) => ({ error }));
		if (got.error) return fail(got.error);
		view.consent = null;
		answer("good", "This program is authorized at " + name + ".", 15);
		refresh();
	});
	render(true);
}

// cancelCall cancels a call in flight, or one that its server executes as a task.
async function cancelCall(path, call) {
	answer("busy", "The server is asked to cancel the call …");
	const got = await post(path, call).catch((error) => ({ error }));
	if (got.error) answer("bad", "The call is not canceled: " + got.error.message);
	else if (path === "calls/cancel") answer("good", got.asked ? "The call ends, unless its answer has just come. If its server works on it, that was notified, which it need not heed." : "The call ends. Nothing of it was sent.", 8);
	else answer("good", got.asked ? "The server was asked to cancel the call." : "The call has ended, or its server has no such task.", 8);
	poll();
}

// Who scrolls up in stderr reads there, and who scrolls to its end follows it.
document.addEventListener("scroll", (e) => {
	const pre = e.target;
	if (!pre.matches?.("#detail pre.tall")) return;
	const end = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
	if (end === view.follow) return;
	view.follow = end;
	render();
}, true);

document.addEventListener("toggle", (e) => {
	const { key } = e.target.dataset;
	if (!key?.startsWith("call ") || e.target.open === unfolded.has(key)) return;
	if (e.target.open) unfolded.add(key);
	else unfolded.delete(key);
	render(true);
}, true);

document.addEventListener("click", (e) => {
	const button = e.target.closest("button");
	if (!button) return;
	if (button.dataset.act === "restart") askRestart(button.dataset.sure, button.dataset.server);
	else if (button.dataset.act === "start") start(button.dataset.server);
	else if (button.dataset.act === "approve" || button.dataset.act === "deny") decide(button.dataset.id, button.dataset.act === "approve");
	else if (button.dataset.act === "stop") askStop(button.dataset.sure, button.dataset.server);
	else if (button.dataset.act === "restart-all") askRestart(button.dataset.sure, ...JSON.parse(button.dataset.servers));
	else if (button.dataset.act === "follow" || button.dataset.act === "wrap") {
		view[button.dataset.act] = !view[button.dataset.act];
		render(true);
	} else if (button.dataset.act === "single") {
		ask("view", asked("view") === "single" ? "" : "single");
		if (asked("group") === "messages") ask("group", "");
		render(true);
	} else if (button.dataset.recorded !== undefined) {
		ask("recorded", button.dataset.recorded);
		searchAgain();
		render(true);
	} else if (button.dataset.sort !== undefined) {
		ask(orderOf(button.dataset.list), button.dataset.sort);
		$("order").value = asked(orderOf("servers")).replace("-", "") || "name";
		render(true);
	} else if (button.dataset.more) {
		drawMore(button.dataset.more, Number(button.dataset.first), button.dataset.fewer);
		render(true);
	} else if (button.dataset.act === "copy-stderr") copyStderr();
	else if (button.dataset.act === "cancel") cancelCall(button.dataset.path, button.dataset.call);
	else if (button.dataset.act === "authorize") authorize(button.dataset.server);
	else if (button.dataset.act === "copy-command") copy(button.previousElementSibling, "the command");
	else if (button.dataset.state) showState(button.dataset.state);
	else if (button.id === "show-all") clearFilter();
	else if (button.id === "dismiss") answer();
	else if (button.id === "help") $("keys").showModal();
	else if (button.id === "keys-close") $("keys").close();
});

$("skip").addEventListener("click", (e) => {
	e.preventDefault();
	const row = document.querySelector("#server-rows a.name");
	($("overview").hidden ? document.querySelector("#detail h1") : row?.offsetParent ? row : $("place")).focus();
});

bindKeys({ controls: () => app.controls, restart: (name) => restart(false, name), endedCalls, answer, clearFilter, render });

document.addEventListener("change", (e) => {
	const { pick } = e.target.dataset;
	if (!pick) return;
	ask(pick, e.target.value);
	render(true);
});

$("order").addEventListener("change", () => {
	ask(orderOf("servers"), $("order").value === "name" ? "" : $("order").value);
	render(true);
});
$("filter").addEventListener("input", () => {
	ask("q", $("filter").value);
	render();
});
$("window").addEventListener("change", () => {
	ask("range", $("window").value === "0" ? "" : $("window").value);
	render(true);
});
$("tree-box").addEventListener("toggle", () => render());
addEventListener("hashchange", route);
document.addEventListener("visibilitychange", () => {
	if (document.hidden) {
		source?.close();
		link("paused", "paused");
		return;
	}
	connect();
	refresh();
	poll();
});
setInterval(() => { if (!document.hidden && !lostSince) tick(document); }, 1000);
setInterval(() => { if (!document.hidden && !lostSince) tickCountdowns(document); }, 100);
setInterval(() => { if (!document.hidden && app.loaded) render(); }, 5000);
setInterval(poll, pollEvery);
setInterval(pollUsage, usageEvery);
if (matchMedia("(max-width: 60rem)").matches) $("tree-box").open = false;
route();
refresh();
connect();
