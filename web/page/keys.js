// What the keys do. All of it can be done with Tab, Enter and the pointer, too.
import { here, places } from "./places.js";

const $ = (id) => document.getElementById(id);

// rows are the links that j and k walk: one of each row of servers, of another place, or of the tools of a server.
function rows() {
	const listed = here.place === "" || here.place === "servers" ? "#server-rows .row, #found tr" : "#overview section:not([hidden]) :is(tr, li)";
	return [...document.querySelectorAll(here.name === null ? listed : "#detail [data-key=catalog] tr")].map((row) => row.querySelector("a.name")).filter(Boolean);
}

function walk(step) {
	const links = rows(), now = links.indexOf(document.activeElement?.closest(".row, tr, li")?.querySelector("a.name") ?? document.activeElement);
	const next = links[now < 0 ? (step > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, now + step))];
	next?.focus();
	next?.scrollIntoView({ block: "nearest" });
}

// bindKeys binds the keys of the page. ask restarts a server when r is pressed a second time:
// one key that was hit by mistake must not end what runs.
export function bindKeys({ controls, restart, endedCalls, answer, clearFilter, render }) {
	let asked = null;
	const ask = () => {
		const name = here.name ?? document.activeElement?.closest("#server-rows .row")?.dataset.key;
		if (!controls()) answer("off", "This page is read only: it restarts no server.", 8);
		else if (name === undefined) answer("off", "Choose a server first, with j and k.", 8);
		else if (asked === name) {
			asked = null;
			restart(name);
			return;
		} else answer("warn", "Press r again to restart " + name + "." + (endedCalls(name) ? " It fails " + endedCalls(name) + "." : ""), 8);
		asked = controls() && name !== undefined ? name : null;
	};
	const open = () => {
		const links = rows().filter((a) => !a.hasAttribute("aria-current"));
		if (links.length === 1) location.hash = links[0].hash;
		else links[0]?.focus();
	};
	document.addEventListener("keydown", (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
		const filter = $("filter"), typing = e.target.closest("input, textarea, select");
		if (e.key !== "r") asked = null;
		if (e.target === filter && e.key === "Escape") {
			clearFilter();
			filter.blur();
		} else if (e.target === filter && (e.key === "Enter" || e.key === "ArrowDown") && !e.isComposing) {
			e.preventDefault();
			render(true);
			if (e.key === "Enter") open();
			else walk(1);
		} else if (typing) {
			return;
		} else if (e.key === "/") {
			e.preventDefault();
			filter.focus();
			filter.select();
		} else if (e.key === "j" || e.key === "k") {
			walk(e.key === "j" ? 1 : -1);
		} else if (places[e.key - 1]) {
			location.hash = "#/" + places[e.key - 1][0];
		} else if (e.key === "r" && !e.repeat) {
			ask();
		} else if (e.key === "?") {
			$("keys").showModal();
		} else if (e.key === "Escape") {
			if (!$("answer").hidden) answer();
			else if (here.name !== null) location.hash = here.list;
			else clearFilter();
		}
	});
}
