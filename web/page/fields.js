// Fields made from the input schema of a tool. The schema comes from a server: every walk over it has a bound, its
// texts are shown as texts, and its patterns are not run. The handler checks the arguments against the whole schema.
import { h } from "./dom.js";
import { plural } from "./format.js";

// What is beyond a bound is one field of JSON text.
const maxFields = 200, maxDepth = 4, maxChoices = 500, maxHops = 16, maxNodes = 5000, maxText = 2000, maxPrefilled = 20000;
const whole = { type: "object", enum: [], description: "All arguments, as a JSON object." };
let serial = 0;

// rootField is the field of all arguments. A field has
//
//	el            its elements
//	json(wrong)   its value as JSON; undefined leaves it out. Each problem is shown, and adds a field to wrong.
//	words()       what is typed, as words of mcpvisor call; none, or an empty one, for all arguments as one JSON text
//	filled()      whether something is typed
//	save(all)     what is typed; without all, no secret. load takes it back, as far as it fits
//	clear()       takes shown problems away
//	count()       how many fields it takes of the maxFields of a form
export function rootField(given) {
	const form = { root: given, left: maxFields };
	try {
		const at = { form, depth: 0, seen: [], prefill: true }, s = resolve(given, at);
		const names = Object.keys(object(s.properties)).length, free = s.additionalProperties || s.anyOf || s.oneOf || s.$ref || s.patternProperties;
		if (names <= maxFields && (names || !free)) return group("", s, true, at);
		return { ...leaf("value", { ...s, ...whole }, true, at), words: () => [] };
	} catch { // no valid schema
		return { ...leaf("value", whole, true, { form: { root: {} }, depth: 0, seen: [], prefill: true }), words: () => [] };
	}
}

function object(v) { return typeof v === "object" && v && !Array.isArray(v) ? v : {}; }

function array(v) { return Array.isArray(v) ? v : []; }

const keywords = ["type", "enum", "const", "default", "examples", "description", "format", "pattern", "writeOnly", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
	"properties", "required", "items", "additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref"];

// resolve returns the keywords of a schema. It follows references within the whole schema, and takes the one
// schema of a choice that is only between it and null. seen gets the references, to stop at circles.
function resolve(given, at) {
	const s = Object.create(null);
	for (let hops = 0; given && hops < maxHops; hops++) {
		for (const key of keywords) if (Object.hasOwn(object(given), key) && !(key in s)) s[key] = given[key];
		given = null;
		if (typeof s.$ref === "string") {
			if (at.seen.includes(s.$ref)) return s;
			at.seen = [...at.seen, s.$ref];
			given = target(s.$ref, at.form.root);
			if (given) delete s.$ref;
		} else {
			const key = ["anyOf", "oneOf", "allOf"].find((k) => s[k]), choices = array(s[key]).slice(0, 10).filter((c) => key === "allOf" || object(c).type !== "null");
			if (choices.length !== 1) continue;
			given = choices[0];
			delete s[key];
		}
	}
	return s;
}

// target is what a reference such as #/$defs/Mode names in a schema.
function target(ref, root) {
	if (ref !== "#" && !ref.startsWith("#/")) return null;
	let found = root;
	for (const part of ref.split("/", maxHops).slice(1)) {
		const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
		if (!Object.hasOwn(Object(found), key)) return null;
		found = found[key];
	}
	return found;
}

// exact tells whether all numbers of a value have kept their digits.
function exact(v) { return typeof v === "number" ? Math.abs(v) < 2 ** 53 : typeof v !== "object" || !/\d{16}/.test(JSON.stringify(v)); }

function choicesOf(s) {
	const all = ("const" in s ? [s.const] : array(s.enum)).filter((v) => v !== null);
	return all.length && all.length <= maxChoices && all.every((v) => typeof v !== "object" && exact(v)) ? all : null;
}

function typeOf(s) {
	const types = array([s.type].flat()).filter((t) => t && t !== "null"), type = types.length === 1 ? types[0] : !types.length && s.properties ? "object" : "json";
	return choicesOf(s) ? "enum" : ["boolean", "number", "integer", "string", "array", "object"].includes(type) ? type : "json";
}

// divides tells whether a schema is that of an object or a list whose parts can have fields.
function divides(s, at) {
	if (at.depth >= maxDepth || s.$ref || [s.anyOf, s.oneOf].some((list) => array(list).slice(0, 10).some((c) => object(c).properties || object(c).$ref))) return false;
	if (typeOf(s) === "object") {
		const names = Object.keys(object(s.properties)).length;
		return names > 0 && names <= at.form.left && !s.patternProperties && typeof s.additionalProperties !== "object";
	}
	if (typeOf(s) !== "array") return false;
	const inner = { ...at, depth: at.depth + 1 }, items = resolve(s.items, inner), type = typeOf(items);
	return type === "object" || type === "array" ? divides(items, inner) : type !== "json";
}

function fieldOf(path, given, required, at) {
	at = { ...at, depth: at.depth + 1 };
	const s = resolve(given, at);
	if (s.format === "password" || s.writeOnly === true) at.secret = true;
	return !divides(s, at) ? leaf(path, s, required, at) : typeOf(s) === "object" ? group(path, s, required, at) : list(path, s, required, at);
}

// withDefault is a schema whose default is the value in a default around it.
function withDefault(given, around, key) { return Object.hasOwn(Object(around), key) ? { allOf: [given], default: around[key] } : given; }

// group is an object with a field for each member. An optional one is left out while nothing is typed in it, so
// its members do not begin with their defaults.
function group(path, s, required, at) {
	const properties = object(s.properties), must = new Set(array(s.required)), names = Object.keys(properties).sort((a, b) => must.has(b) - must.has(a)); // stable
	at.form.left -= names.length;
	const inner = { ...at, prefill: at.prefill && required }, around = inner.prefill && exact(s.default) ? s.default : null;
	const members = names.map((name) => [name, fieldOf(path ? path + "." + name : name, withDefault(properties[name], around, name), must.has(name), inner)]);
	const els = members.map(([, m]) => m.el);
	return {
		el: path ? set(path, s, required, "object", els) : els,
		empty: !names.length,
		json: (wrong) => {
			if (!required && !members.some(([, m]) => m.filled())) return void members.forEach(([, m]) => m.clear());
			const parts = members.map(([name, m]) => [JSON.stringify(name), m.json(wrong)]);
			return "{" + parts.filter(([, json]) => json !== undefined).map(([name, json]) => name + ":" + json) + "}";
		},
		words: () => members.some(([name]) => /[.[]/.test(name)) ? [""] : members.flatMap(([, m]) => m.words()), // a.b could be either
		filled: () => members.some(([, m]) => m.filled()),
		clear: () => members.forEach(([, m]) => m.clear()),
		save: (all) => new Map(members.map(([name, m]) => [name, m.save(all)])),
		load: (state) => state instanceof Map && members.forEach(([name, m]) => m.load(state.get(name))),
		count: () => members.reduce((n, [, m]) => n + m.count(), path ? 1 : 0),
	};
}

// list is an array with a field for each item, which the reader adds and removes.
function list(path, s, required, at) {
	const rows = h("div", "rows-of"), wrongText = h("p", "wrong"), add = h("button", { type: "button", label: "Add to " + path }, "Add");
	const [least, most] = [s.minItems, s.maxItems].map((n) => typeof n === "number" ? n : undefined);
	const el = set(path, s, required, "array", [rows, wrongText, h("p", "actions", add)]);
	let items = [];
	const changed = () => el.dispatchEvent(new Event("input", { bubbles: true }));
	const append = (state, given = s.items) => {
		if (at.form.left < 1) return void (wrongText.textContent = "A form has at most " + maxFields + " fields. Call the tool by a command for more.");
		at.form.left--;
		const name = path + "[" + items.length + "]", item = fieldOf(name, given, true, { ...at, prefill: true });
		const remove = h("button", { type: "button", label: "Remove " + name }, "Remove"), place = items.push(item) - 1;
		item.load(state);
		remove.onclick = () => {
			reset(items.map((one) => one.save(true)).toSpliced(place, 1));
			(rows.children[place]?.lastElementChild ?? add).focus();
			changed();
		};
		rows.append(h("div", "item", item.el, remove));
		return item;
	};
	const reset = (states) => {
		at.form.left += items.reduce((n, one) => n + one.count(), 0);
		items = [];
		rows.replaceChildren();
		wrongText.textContent = "";
		states.forEach((state) => append(state));
	};
	add.onclick = () => {
		if (!append()) return;
		rows.lastElementChild.querySelector("input, select, textarea, button").focus();
		changed();
	};
	const initial = at.prefill && exact(s.default) ? array(s.default).slice(0, maxFields) : [];
	initial.forEach((value, i) => append(undefined, withDefault(s.items, initial, i)));
	if (required && at.prefill) while (items.length < Math.min(least ?? 0, 3) && append());
	return {
		el,
		json: (wrong) => {
			wrongText.textContent = "";
			if (!items.length && !required) return undefined;
			if (items.length < least) wrongText.textContent = path + ": at least " + plural(least, "item");
			if (items.length > most) wrongText.textContent = path + ": at most " + plural(most, "item");
			if (wrongText.textContent) wrong.push(add);
			return "[" + items.map((one) => one.json(wrong)) + "]";
		},
		words: () => items.flatMap((one) => one.words()),
		filled: () => items.length > 0,
		clear: () => { wrongText.textContent = ""; },
		save: (all) => items.map((one) => one.save(all)),
		load: (states) => Array.isArray(states) && reset(states),
		count: () => items.reduce((n, one) => n + one.count(), 1),
	};
}

function set(path, s, required, word, els) {
	return h("fieldset", "set", h("legend", null, path, h("span", "note", " " + word + (required ? ", required" : ""))), about(s), els);
}

function brief(v) {
	const text = typeof v === "object" ? JSON.stringify(v) : String(v ?? "");
	return text.length > maxText ? text.slice(0, maxText) + "…" : text;
}

// about is what the schema says about a field.
function about(s, id, hint) {
	const parts = [["from", s.minimum], ["to", s.maximum], ["at least", s.minItems, "item"], ["at most", s.maxItems, "item"]].filter(([, n]) => typeof n === "number").map(([word, n, noun]) => word + " " + (noun ? plural(n, noun) : n));
	for (const key of ["format", "pattern"]) if (s[key]) parts.push(key + " " + brief(s[key]));
	return h("p", { class: "note", id }, [brief(s.description), parts.length ? "(" + parts.join(", ") + ")" : "", hint].filter(Boolean).join(" "));
}

function fail(text, cause) { throw new Error(text, cause); }

// leaf is one input. It has no attribute "name": that would hide the member of the form of that name. parse
// returns JSON with the digits that were typed: a number of JavaScript would change them.
function leaf(path, s, required, at) {
	const id = "f" + ++serial, type = typeOf(s), values = choicesOf(s) ?? [true, false];
	const preset = exact(s.default) ? s.default ?? undefined : undefined, initial = at.prefill ? preset : undefined;
	const [minimum, maximum, minLength, maxLength] = ["minimum", "maximum", "minLength", "maxLength"].map((key) => typeof s[key] === "number" ? s[key] : undefined);
	const attrs = { id, "data-name": path, "aria-describedby": id + "d " + id + "e", "aria-required": required && at.prefill ? "true" : null, autocomplete: "off", spellcheck: "false" };
	let input, parse, secret = at.secret, example = null;
	switch (type) {
	case "enum":
	case "boolean":
		input = h("select", attrs, required && values.includes(initial) ? null : h("option", { value: "" }, "–"), values.map((v, i) => h("option", { value: i, selected: v === initial }, brief(v))));
		parse = (text) => JSON.stringify(values[text]);
		break;
	case "number":
	case "integer":
		input = h("input", { ...attrs, type: "text", inputmode: type === "integer" ? "numeric" : "decimal", value: initial });
		parse = (text) => {
			text = text.trim();
			if (!/^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text)) fail("not a number");
			if (type === "integer" && !/^-?\d+$/.test(text)) fail("not a whole number");
			if (text < minimum) fail("at least " + minimum);
			if (text > maximum) fail("at most " + maximum);
			return text;
		};
		break;
	case "string": {
		const long = !secret && (maxLength > 200 || /multi|text|content|body|code|query|prompt|message/i.test(path.slice(path.lastIndexOf(".") + 1)));
		input = long ? h("textarea", { ...attrs, rows: 2 }, initial) : h("input", { ...attrs, type: secret ? "password" : "text", value: secret ? null : initial, autocomplete: secret ? "new-password" : "off" });
		parse = (text) => {
			if (text === '""') return text;
			if (text.length < minLength) fail("at least " + plural(minLength, "character"));
			if (text.length > maxLength) fail("at most " + plural(maxLength, "character"));
			return JSON.stringify(text);
		};
		break;
	}
	default: {
		secret ||= hasSecret(s, at.form.root);
		const sample = JSON.stringify(skeleton(s, { ...at, seen: [], room: { left: 100 } }, type), null, 1), fits = sample !== "null" && sample.length <= maxPrefilled;
		const text = initial === undefined ? null : JSON.stringify(initial, null, 1);
		input = h("textarea", { ...attrs, rows: 3, class: "mono", placeholder: type === "array" ? "[…]" : type === "object" ? "{…}" : "JSON" }, text?.length <= maxPrefilled ? text : required && at.prefill && fits ? sample : null);
		input.rows = Math.max(3, Math.min(12, input.value.split("\n").length));
		if (fits && sample.length > 2 && input.value !== sample) {
			example = h("button", { type: "button", label: "Fill in " + path + " with what the schema requires" }, "Fill in");
			example.onclick = () => {
				input.value = sample;
				input.dispatchEvent(new Event("input", { bubbles: true }));
				input.focus();
			};
		}
		parse = (text) => {
			let value;
			try { value = JSON.parse(text); } catch (e) { fail("not valid JSON: " + e.message, { cause: e }); }
			if (type === "array" && !Array.isArray(value)) fail("not a JSON array");
			if (type === "object" && (typeof value !== "object" || !value || Array.isArray(value))) fail("not a JSON object");
			return text;
		};
	}
	}
	if (secret) input.dataset.secret = "true";
	const error = h("p", { class: "wrong", id: id + "e" });
	const word = type === "json" ? "any JSON" : type === "enum" ? "one of " + values.length : type + (type === "array" || type === "object" ? ", as JSON" : "");
	const report = (problem) => {
		error.textContent = problem ?? "";
		if (problem) input.setAttribute("aria-invalid", "true");
		else input.removeAttribute("aria-invalid");
	};
	const hint = preset !== undefined && initial === undefined && typeof preset !== "object" && !secret ? "Default: " + brief(preset) : "";
	return {
		el: h("div", "field", h("label", { for: id }, path, h("span", "note", " " + word + (!required ? "" : at.prefill ? ", required" : ", required with others here") + (secret ? ", secret" : ""))), input, about(s, id + "d", hint), example ? h("p", "actions", example) : null, error),
		json: (wrong) => {
			let problem = null, json;
			if (input.value === "") problem = required ? path + " is required" + (type === "string" ? '; write "" for an empty text' : "") : null;
			else try { json = parse(input.value); } catch (e) { problem = path + ": " + e.message; }
			report(problem);
			if (problem) wrong.push(input);
			return json;
		},
		words: () => {
			const json = input.value === "" ? null : parse(input.value);
			return json === null ? [] : [path + (json.startsWith('"') ? "=" + JSON.parse(json) : ":=" + json.replace(/[\t\n\r]/g, " "))];
		},
		filled: () => input.value !== "",
		clear: () => report(null),
		// The place of a value in a list may change, so a chosen one is kept as what it is.
		save: (all) => secret && !all ? undefined : { of: input.nodeName, text: input.nodeName === "SELECT" && input.value !== "" ? JSON.stringify(values[input.value]) : input.value },
		load: (state) => {
			if (state?.of !== input.nodeName) return;
			const text = input.nodeName !== "SELECT" || state.text === "" ? state.text : String(values.findIndex((v) => JSON.stringify(v) === state.text));
			if (input.nodeName !== "SELECT" || [...input.options].some((o) => o.value === text)) input.value = text;
		},
		count: () => 1,
	};
}

// hasSecret tells whether a schema asks for a secret somewhere, or is too large to tell.
function hasSecret(s, root) {
	const open = [s];
	for (let i = 0, whole = false; i < open.length; i++) {
		const one = open[i];
		if (i >= maxNodes || one.format === "password" || one.writeOnly === true) return true;
		if (one.$ref && !whole) whole = open.push(root) > 0;
		for (const key in one) if (typeof one[key] === "object" && one[key] && open.length <= maxNodes) open.push(one[key]);
	}
	return false;
}

// skeleton is the shortest value that a schema seems to allow: required members, with empty values of their types.
function skeleton(given, at, type) {
	at = { ...at, depth: at.depth + 1 };
	if (at.room.left-- < 1 || at.depth > 2 * maxDepth) return null;
	const s = resolve(given, at);
	for (const value of [s.default, s.const, array(s.examples)[0], array(s.enum)[0]]) if (value !== undefined && value !== null && exact(value)) return value;
	const choice = array(s.anyOf ?? s.oneOf).find((c) => object(c).type !== "null");
	type ??= typeOf(s);
	if (choice && (type === "json" || !s.properties)) return skeleton(choice, at);
	switch (type) {
	case "object": return Object.fromEntries(array(s.required).slice(0, 100).filter((name) => typeof name === "string").map((name) => [name, skeleton(Object.hasOwn(object(s.properties), name) ? s.properties[name] : {}, at)]));
	case "array": return s.minItems > 0 ? [skeleton(s.items, at)] : [];
	case "string": return "";
	case "number":
	case "integer": return typeof s.minimum === "number" && exact(s.minimum) ? s.minimum : 0;
	case "boolean": return false;
	}
	return null;
}
