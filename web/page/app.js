// The state of the page, and how it is kept up to date: an event stream says that something
// has changed, and what has changed is fetched.
import { fill } from "./dom.js";
import { at, plural, serverNow, setClock, span, stateOf, tick, tickCountdowns } from "./format.js";
import { byTrouble, showAttention, showRows, showSummary, showTree } from "./servers.js";
import { showCalls, showEvents, showInFlight, showTools } from "./traffic.js";
import { showDetail } from "./detail.js";

const $ = (id) => document.getElementById(id);
const app = { loaded: false, instance: "", servers: new Map(), attention: [], inFlight: [], recent: [], unknown: [], tools: [], events: [], lost: 0, controls: false, call };
const view = { name: null, tool: null, detail: null, catalog: null, key: "" };
const refreshEvery = 100, pollEvery = 1000, keptEvents = 400, keptCalls = 500, firstRows = 40;

async function get(path) {
	const answer = await fetch("api/" + path, { headers: { Accept: "application/json" } });
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

// Status. A change is fetched at once, unless another was just fetched.
const changed = new Set();
let fetching = false, stale = false, refreshTimer = 0, lastRefresh = 0, current = Date.now(), lostSince = 0;

function refresh(name) {
	changed.add(name ?? "");
	if (fetching || refreshTimer) return;
	refreshTimer = setTimeout(fetchStatus, Math.max(0, lastRefresh + refreshEvery - performance.now()));
}

async function fetchStatus() {
	refreshTimer = 0;
	fetching = true;
	lastRefresh = performance.now();
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
		app.lost = 0;
		app.recent = [];
		view.key = "";
	}
	app.instance = s.instance;
	setClock(s.now);
	const news = [];
	for (const one of s.servers) {
		const before = app.servers.get(one.name);
		if (before && before.state !== one.state) news.push(one);
		app.servers.set(one.name, one);
	}
	const registered = new Set(s.names);
	for (const name of app.servers.keys()) if (!registered.has(name)) app.servers.delete(name);
	app.attention = s.attention;
	app.controls = s.controls;
	app.loaded = true;
	const urgent = s.attention.filter((a) => a.severity !== "notice").length;
	$("title").textContent = s.title;
	document.title = (urgent ? "(" + urgent + ") " : "") + s.title;
	announce(news);
	render();
	fetchDetail();
}

// showLoss shows a banner over everything, while neither the status can be read nor events
// arrive: then the process has ended, or cannot be reached. What the page shows is of before.
function showLoss() {
	const lost = stale && $("link").dataset.link === "lost";
	if (lost === Boolean(lostSince)) return;
	lostSince = lost ? current : 0;
	document.body.classList.toggle("lost", lost);
	$("loss").hidden = !lost;
	fill($("loss"), lost ? ["The connection to " + $("title").textContent + " was lost at ", at(new Date(current).toISOString()), ". Its process may have ended. ", app.loaded ? "What follows is from before. " : null, "The page connects again by itself."] : null);
	render();
}

// announce tells screen readers about servers that became ready, or ended.
function announce(news) {
	const loud = news.filter((s) => stateOf(s.state)[2] !== "busy");
	if (!loud.length) return;
	const text = loud.length > 3 ? plural(loud.length, "server") + " changed" : loud.map((s) => s.name + " is " + stateOf(s.state)[1] + (s.state !== "ready" && s.lastCause ? ": " + s.lastCause.message : "")).join(". ");
	$("news").textContent = text;
}

let polling = false;

async function poll() {
	if (polling || document.hidden) return;
	if (stale || $("link").dataset.link !== "live") refresh(); // no event says what has changed
	if (!app.loaded) return;
	polling = true;
	try {
		const c = await get("calls?after=" + (app.recent.at(-1)?.seq ?? 0));
		const active = c.recent.length > 0 || c.inFlight.length > 0 || app.inFlight.length > 0;
		app.recent = app.recent.concat(c.recent).slice(-keptCalls);
		app.inFlight = c.inFlight;
		app.unknown = c.unknown;
		if (c.recent.length || !app.tools.length) app.tools = (await get("tools?limit=20")).tools;
		if (active) {
			for (const one of [...c.recent, ...c.inFlight]) changed.add(one.server);
			refresh(changed.values().next().value);
			render();
		}
		if (view.name) fetchDetail();
	} catch { /* the next poll tries again */ }
	polling = false;
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
		if (view.key !== key) {
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
	source = new EventSource("api/events/stream" + (lastSeq === null ? "?last=200" : "?after=" + lastSeq));
	const lost = () => {
		link("lost", "reconnecting");
		refresh();
		if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
	};
	source.onopen = () => link("live", "live");
	source.onerror = lost;
	source.addEventListener("hello", (e) => {
		if (app.instance && JSON.parse(e.data).instance !== app.instance) app.events = [];
		refresh();
	});
	source.addEventListener("missed", (e) => {
		const { missed } = JSON.parse(e.data);
		app.lost += missed;
		refresh();
	});
	source.onmessage = (e) => {
		const event = JSON.parse(e.data);
		lastSeq = event.seq;
		app.events.push(event);
		if (app.events.length > keptEvents) app.events.splice(0, app.events.length - keptEvents);
		if (!event.fromServer) refresh(event.server);
		render();
	};
}

function link(state, text) {
	$("link").dataset.link = state;
	$("link-text").textContent = text;
}

// Routes: #/ is the overview, #/s/NAME a server, #/s/NAME/TOOL one of its tools. Other
// fragments are places on the page.
function route() {
	const hash = location.hash;
	if (hash && !hash.startsWith("#/")) return;
	const [, kind, name, tool] = hash.split("/").map((part) => {
		try { return decodeURIComponent(part); } catch { return part; }
	});
	const next = kind === "s" ? name : null;
	if (next !== view.name) {
		Object.assign(view, { name: next, detail: null, catalog: null, chosen: null, key: "", shown: "" });
		$("filter").value = "";
		$("filter").placeholder = next === null ? "Filter servers" : "Filter tools";
	}
	view.tool = tool || null;
	view.focus = Boolean(tool) && app.loaded;
	$("overview").hidden = next !== null;
	$("detail").hidden = next === null;
	render(true);
	if (next) fetchDetail();
	if (!view.tool) scrollTo(0, 0);
}

let frame = 0;

function render(now) {
	if (now && frame) cancelAnimationFrame(frame);
	if (now) return paint();
	frame ||= requestAnimationFrame(paint);
}

function paint() {
	frame = 0;
	const servers = [...app.servers.values()].sort(byTrouble);
	const first = !document.documentElement.dataset.loaded; // what is on the screen comes first
	showSummary($("summary"), servers);
	showTree($("tree"), first ? servers.slice(0, firstRows) : servers, view.name);
	const wanted = app.wanted = $("filter").value.trim().toLowerCase();
	if (view.name) {
		showDetail($("detail"), view.name, app.servers.get(view.name), view, app);
		const title = view.focus && $("tool-title");
		if (title) { // the tool was chosen: its form is next
			view.focus = false;
			document.querySelector("tr.chosen")?.scrollIntoView({ block: "nearest" });
			title.focus();
		}
		return;
	}
	const shown = wanted ? servers.filter((s) => [s.name, s.state, s.target, s.transport].some((text) => text.toLowerCase().includes(wanted))) : servers;
	if (app.loaded) showAttention($("attention"), app.attention, app.controls, servers, lostSince > 0);
	const seconds = showRows($("server-rows"), first ? shown.slice(0, firstRows) : shown, Number($("window").value));
	$("servers-note").textContent = wanted ? shown.length + " of " + servers.length : servers.length ? plural(servers.length, "server") : "";
	$("window").options[0].textContent = "auto (" + span(seconds * 1000) + ")";
	showInFlight($("flight"), app.inFlight);
	showCalls($("calls"), app);
	showTools($("tools"), app.tools);
	showEvents($("events"), app.events, app.lost);
	if (app.loaded && first) {
		document.documentElement.dataset.loaded = "true";
		setTimeout(() => { // after this frame
			performance.measure("first servers", "status");
			render();
		});
	}
}

document.addEventListener("click", async (e) => {
	const button = e.target.closest("button[data-act=restart], button[data-act=restart-all]");
	if (!button) return;
	button.disabled = true;
	const names = button.dataset.servers ? JSON.parse(button.dataset.servers) : [button.dataset.server];
	const answers = await Promise.all(names.map((name) => post("servers/" + encodeURIComponent(name) + "/restart", "{}").catch((error) => ({ error }))));
	button.disabled = false;
	const failed = answers.find((answer) => answer.error);
	$("news").textContent = failed ? "The restart failed: " + failed.error.message : "Restart of " + (names.length > 1 ? names.length + " servers" : names[0]) + " is under way";
	refresh();
});

document.addEventListener("keydown", (e) => {
	const typing = e.target.closest("input, textarea, select");
	if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
		e.preventDefault();
		$("filter").focus();
	} else if (e.key === "Escape" && e.target === $("filter")) {
		$("filter").value = "";
		$("filter").blur();
		render();
	} else if (e.key === "Escape" && !typing && view.name) {
		location.hash = "#/";
	}
});

$("filter").addEventListener("input", () => render());
$("window").addEventListener("change", () => render());
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
if (matchMedia("(max-width: 60rem)").matches) $("tree-box").open = false;
route();
refresh();
connect();
