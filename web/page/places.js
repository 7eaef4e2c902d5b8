// Where the reader is: a place of the page, and what of it is shown in which order. All of it is in
// the fragment of the address, so that a link can be sent, and works under any prefix: #/PLACE?q=WORDS,
// #/s/SERVER, #/s/SERVER/TOOL.
import { fill, h } from "./dom.js";
import { count } from "./format.js";

// places are the paths and titles, in the order of their keys. The overview has no path.
export const places = [["", "Overview"], ["servers", "Servers"], ["calls", "Calls"], ["clients", "Clients"], ["tools", "Tools"], ["resources", "Resources and prompts"], ["events", "Events"]];

// here is where the reader is. list is the address of the last place that is not a server's.
export const here = { place: "", name: null, tool: null, query: new URLSearchParams(), list: "#/" };

const longest = 200; // characters of a value in the address

function decode(part) {
	try { return decodeURIComponent(part); } catch { return part; }
}

// readAddress returns false for a fragment that is no address of a place.
export function readAddress() {
	const hash = location.hash;
	if (hash && !hash.startsWith("#/")) return false;
	const [path, query] = hash.slice(2).split(/\?(.*)/s), [kind, name, tool] = path.split("/").map(decode);
	here.name = kind === "s" ? name ?? "" : null;
	here.tool = here.name !== null && tool ? tool : null;
	here.place = here.name !== null ? "servers" : places.some(([path]) => path === kind) ? kind : "";
	here.query = new URLSearchParams(query ?? "");
	if (here.name === null) here.list = address(here.place);
	return true;
}

// asked is a value in the address; the empty text without one.
export function asked(name) { return [...here.query.get(name) ?? ""].slice(0, longest).join(""); }

// search is the part of the address behind the path.
export function search() { return String(here.query) && "?" + here.query; }

function address(path) { return "#/" + path + search(); }

// ask changes a value in the address. It makes no entry in the history of the browser.
export function ask(name, value) {
	if (value) here.query.set(name, value);
	else here.query.delete(name);
	const path = location.hash.slice(2).split("?")[0];
	try { history.replaceState(null, "", address(path)); } catch { /* too many at once: the next one tells it */ }
	if (here.name === null) here.list = address(here.place);
}

// brief tells whether the reader sees the overview, which has the beginning of each list.
export function brief() { return here.name === null && here.place === ""; }

// all leads from the overview to a whole list.
export function all(path, text) { return brief() ? h("a", { class: "all", href: "#/" + path + (asked("q") ? "?q=" + encodeURIComponent(asked("q")) : "") }, text + " →") : null; }

// titleOf is the title of the place at an address.
export function titleOf(address) { return places.find(([path]) => path === address.slice(2).split("?")[0])?.[1] ?? "Overview"; }

// showPlaces shows the links to the places, and how much needs attention.
export function showPlaces(el, attention) {
	const urgent = attention.filter((a) => a.severity !== "notice"), tone = urgent.some((a) => a.severity === "error") ? "bad" : "warn";
	fill(el, places.map(([path, title], i) => h("li", { key: "p" + path }, h("a", { href: "#/" + path, "aria-current": path === here.place ? (here.name === null ? "page" : "true") : null, "aria-keyshortcuts": String(i + 1) }, title,
		!path && urgent.length ? [" ", h("span", { class: "tag " + tone }, count(urgent.length), h("span", "hidden", urgent.length === 1 ? " needs attention" : " need attention"))] : null))));
}
