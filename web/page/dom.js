// Builds elements and brings live elements up to date without replacing them, so that
// focus, selection and scroll positions stay.

const SVG = "http://www.w3.org/2000/svg";
const short = { key: "data-key", label: "aria-label" };
const svgTags = new Set(["svg", "rect", "path", "line", "g", "title"]);

// h makes an element. Text of servers is only ever set as text, never as markup. A prop is
// an attribute, some by a short name; null and false leave it out, true sets it without a
// value. A string is the class.
export function h(tag, props, ...children) {
	const el = svgTags.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
	if (typeof props === "string") props = { class: props };
	for (const name in props) {
		const value = props[name];
		if (value === null || value === undefined || value === false) continue;
		el.setAttribute(short[name] ?? name, value === true ? "" : str(value));
	}
	add(el, children);
	return el;
}

// glyph is a mark that screen readers leave out: a word says the same.
export function glyph(mark, tone = "") { return h("span", { class: "glyph " + tone, "aria-hidden": "true" }, mark); }

// unseen are control characters, and those that turn the direction of what follows.
const unseen = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

// str is a text for whatever a server has sent in its place.
function str(value) { return typeof value === "object" ? jsonOf(value) : String(value); }

// jsonOf is a value as JSON. A browser does not write one that is nested thousands of times.
export function jsonOf(value, space) {
	try { return JSON.stringify(value, null, space); } catch (e) { return "This cannot be shown: " + e.message; }
}

export function note(text) { return h("p", "note", text); }

export function td(...children) { return h("td", null, children); }
export function num(...children) { return h("td", "num", children); }

export function head(title, note) { return h("div", "head", h("h2", null, title), note ? h("span", "note", note) : null); }

function add(el, children) {
	for (const child of children) {
		if (child === null || child === undefined || child === false) continue;
		if (Array.isArray(child)) add(el, child);
		else el.append(child instanceof Node ? child : el.nodeName === "TEXTAREA" ? str(child) : str(child).replace(unseen, (c) => "\\u" + c.charCodeAt().toString(16).padStart(4, 0)));
	}
}

// fill makes the children of a live element equal to new ones.
export function fill(live, ...children) {
	const fresh = live.cloneNode(false);
	add(fresh, children);
	children_(live, fresh);
}

// morph makes a live node equal to a fresh one, and returns the node that stays.
function morph(live, fresh) {
	if (live.nodeType !== fresh.nodeType || live.nodeName !== fresh.nodeName) {
		live.replaceWith(fresh);
		return fresh;
	}
	if (live.nodeType !== Node.ELEMENT_NODE) {
		if (live.data !== fresh.data) live.data = fresh.data;
		return live;
	}
	if (live.dataset.keep && live.dataset.keep === fresh.dataset.keep) return live; // it has a state of its own
	const open = live.nodeName === "DETAILS" && live.open;
	for (const { name } of [...live.attributes]) if (!fresh.hasAttribute(name)) live.removeAttribute(name);
	for (const { name, value } of fresh.attributes) if (live.getAttribute(name) !== value) live.setAttribute(name, value);
	if (live.nodeName === "DETAILS") live.open = open;
	children_(live, fresh);
	return live;
}

function children_(live, fresh) {
	const keyed = new Map();
	for (const child of live.children) if (child.dataset.key) keyed.set(child.dataset.key, child);
	let at = live.firstChild;
	for (const next of [...fresh.childNodes]) {
		const key = next.dataset?.key;
		const known = key ? keyed.get(key) : at && !at.dataset?.key ? at : null;
		if (!known) {
			live.insertBefore(next, at);
			continue;
		}
		if (known === at) at = at.nextSibling;
		else live.insertBefore(known, at);
		morph(known, next);
		if (key) keyed.delete(key);
	}
	while (at) {
		const next = at.nextSibling;
		at.remove();
		at = next;
	}
}

// list keeps one child of a live element for each item. Only items whose signature has
// changed are built again.
export function list(live, items, key, signature, build) {
	const known = live.items ?? (live.items = new Map());
	const wanted = new Set();
	let at = live.firstChild;
	for (const item of items) {
		const k = key(item), s = signature(item);
		wanted.add(k);
		let entry = known.get(k);
		if (!entry) {
			entry = { el: build(item), s };
			known.set(k, entry);
			live.insertBefore(entry.el, at);
			continue;
		}
		if (entry.s !== s) {
			const replace = entry.el === at;
			entry.el = morph(entry.el, build(item));
			entry.s = s;
			if (replace) at = entry.el;
		}
		if (entry.el === at) at = at.nextSibling;
		else live.insertBefore(entry.el, at);
	}
	for (const [k, entry] of known) {
		if (wanted.has(k)) continue;
		entry.el.remove();
		known.delete(k);
	}
}
