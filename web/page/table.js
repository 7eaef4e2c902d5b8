// Tables whose heads order them, and that draw no more rows than a reader looks at.
import { h } from "./dom.js";
import { count } from "./format.js";
import { asked, here } from "./places.js";

const step = 100; // rows
const drawn = new Map(); // by list: how many rows are drawn

// forget draws the beginning of each list again.
export function forget() { drawn.clear(); }

// drawMore draws more of a list, or its beginning again.
export function drawMore(id, first, fewer) {
	if (fewer) drawn.delete(id);
	else drawn.set(id, (drawn.get(id) ?? first) + 2 * step);
}

// part is what is drawn of a list.
export function part(id, items, first = step) { return items.slice(0, drawn.get(id) ?? first); }

// more are the buttons below a list of which only a part is drawn.
export function more(id, caption, total, first = step) {
	const now = drawn.get(id) ?? first, left = total - now, button = (text, fewer) => h("button", { type: "button", "data-more": id, "data-first": first, "data-fewer": fewer, label: text + ": " + caption }, text);
	if (total <= first) return null;
	return h("p", { class: "more", key: "more " + id }, left > 0 ? button("Show " + count(Math.min(left, 2 * step)) + " more", null) : null, now > first ? button("Show the first " + first, "true") : null,
		h("span", "note", count(Math.min(now, total)) + " of " + count(total)));
}

// orderOf is the name in the address of the order of a list: the one list of a place has the short one.
export function orderOf(id) { return id === here.place || here.name !== null && id === "catalog" ? "sort" : "sort-" + id; }

// keyOf is what a column is called in the address.
function keyOf(title) { return title.replace("#", "").toLowerCase().replaceAll(" ", "-"); }

// sortHead is a column head. A column with a key orders the list by a click: first as it is mostly
// wanted, then the other way round, then not. desc tells whether the largest come first.
export function sortHead(tag, props, id, title, key, desc) {
	const sort = asked(orderOf(id)), on = key && sort.replace(/^-/, "") === key, reversed = sort.startsWith("-");
	return h(tag, { ...props, "aria-sort": on ? (desc !== reversed ? "descending" : "ascending") : null },
		key ? h("button", { type: "button", class: "sort", "data-list": id, "data-sort": !on ? key : reversed ? "" : "-" + key }, title) : title);
}

// inOrder orders items by the column that is in the address, and leaves them as they are without one.
// What has no measure comes last.
function inOrder(id, columns, items) {
	const sort = asked(orderOf(id)), column = columns.find(([title, measure]) => measure && keyOf(title) === sort.replace(/^-/, ""));
	if (!column) return items;
	const [title, measure] = column, sign = title.startsWith("#") === sort.startsWith("-") ? 1 : -1;
	const missing = (value) => value === undefined || value === null || value === "";
	return items.map((item) => [measure(item), item]).sort(([a], [b]) => missing(a) - missing(b) || (a < b ? -sign : a > b ? sign : 0)).map(([, item]) => item);
}

// ordered tells whether the reader has chosen an order for a list.
export function ordered(id) { return asked(orderOf(id)) !== ""; }

// table makes a table of items. A column is a title, of numbers with # before it, or a title with what
// the table can be ordered by. With the style "folds" a narrow window shows each row as a few lines,
// where each cell but the wide ones has its title. row makes one row of an item, or several.
export function table(id, caption, columns, items, row, empty, style) {
	if (!items.length) return h("p", "calm", empty);
	const all = columns.map((c) => Array.isArray(c) ? c : [c]), rows = part(id, inOrder(id, all, items)).flatMap(row);
	for (const row of rows) [...row.cells].forEach((cell, i) => cell.setAttribute("data-title", all[i][0].replace("#", "")));
	return [h("div", { class: "scroll", tabindex: 0, role: "region", label: caption, key: "table " + id }, h("table", style, h("caption", "hidden", caption),
		h("thead", null, h("tr", null, all.map(([title, measure]) => sortHead("th", { scope: "col", class: title.startsWith("#") ? "num" : null }, id, title.replace("#", ""), measure && keyOf(title), title.startsWith("#"))))),
		h("tbody", null, rows))), more(id, caption, items.length)];
}
