// A form made from the input schema of a tool, and the result of the call.
import { fill, h, note } from "./dom.js";
import { plural, tell, took } from "./format.js";

let serial = 0, last = {};

// toolForm returns a form that calls a tool. send makes the call. The form of a tool that
// has not changed stays; an empty one holds its place.
export function toolForm(tool, send) {
	const schema = tool.definition.inputSchema ?? {};
	const hints = tool.definition.annotations ?? {};
	const text = tool.name + JSON.stringify([schema, hints]);
	if (last.text === text && last.form.isConnected) return h("form", { key: last.key, "data-keep": last.key });
	const key = ++serial;
	let fields;
	try { fields = fieldsOf(schema); } catch { fields = [wholeField({})]; } // no valid schema
	const submit = h("button", "primary");
	let asked;
	const askAgain = () => {
		asked = hints.readOnlyHint === true;
		fill(submit, "Call " + tool.originalName);
	};
	askAgain();
	const cancel = h("button", { type: "button", hidden: true }, "Cancel");
	const again = last.tool === tool.name ? last : null; // its schema has changed
	const result = again?.result ?? h("div", { class: "result", role: "status", "aria-live": "polite", tabindex: -1 });
	const form = h("form", { novalidate: true, key, "data-keep": key, label: "Call " + tool.name }, fields.map((f) => f.el),
		fields.length ? null : note("This tool takes no arguments."), h("p", "actions", submit, cancel), result);
	let running = null;
	cancel.onclick = () => running?.abort();
	form.oninput = askAgain;
	form.onsubmit = async (event) => {
		event.preventDefault();
		if (running) return;
		const args = [];
		let first = null;
		for (const f of fields) {
			const problem = f.read(args);
			f.report(problem);
			if (problem) first ??= f;
		}
		if (first) return first.focus();
		if (!asked) {
			asked = true;
			fill(submit, "Yes, call " + tool.originalName);
			fill(result, h("p", null, tell("▲", "warn", hints.destructiveHint === false ? "This may change something." : "This may change or delete something."), " Call it?"));
			return submit.focus();
		}
		askAgain();
		running = new AbortController();
		submit.disabled = true;
		cancel.hidden = false;
		fill(result, note("Calling…"));
		let answer;
		try {
			answer = await send('{"tool":' + JSON.stringify(tool.name) + ',"arguments":' + (fields[0]?.whole ? args[0] : "{" + args + "}") + "}", running.signal);
		} catch (e) {
			answer = { error: { outcome: "unknown", message: e.name === "AbortError" ? "you canceled the call; the server may have executed it" : e.message } };
		}
		fill(result, shown(answer));
		running = null;
		submit.disabled = false;
		cancel.hidden = true;
	};
	if (again) carry(again.form, form);
	last = { text, key, form, result, tool: tool.name };
	return form;
}

// carry takes over what was typed into the form that another one replaces.
function carry(from, to) {
	for (const input of to.querySelectorAll("[data-name]")) {
		const before = [...from.querySelectorAll("[data-name]")].find((other) => other.dataset.name === input.dataset.name);
		if (before?.nodeName !== input.nodeName || !before.value) continue;
		if (input.nodeName !== "SELECT" || [...input.options].some((o, i) => o.value === before.value && o.text === before.options[before.selectedIndex]?.text)) input.value = before.value;
	}
}

function fieldsOf(schema) {
	const names = Object.keys(schema.properties ?? {});
	if (names.length > shownFields) return [wholeField(schema)];
	if (!names.length) return schema.additionalProperties || schema.anyOf || schema.oneOf || schema.$ref || schema.patternProperties ? [wholeField(schema)] : [];
	const required = new Set(schema.required ?? []);
	names.sort((a, b) => required.has(b) - required.has(a)); // stable
	return names.map((name) => field(name, schema.properties[name] ?? {}, required.has(name)));
}

function wholeField(schema) {
	return field("value", { type: "object", description: "All arguments, as a JSON object.", default: schema.default ?? {} }, true, true);
}

function fail(text, cause) { throw new Error(text, cause); }

// exact tells whether a number has kept its digits.
function exact(v) { return typeof v !== "number" || Math.abs(v) < 2 ** 53; }

function typeOf(schema) {
	const types = [schema.type].flat().filter((t) => t && t !== "null");
	if (Array.isArray(schema.enum) && schema.enum.every((v) => typeof v !== "object" && exact(v))) return "enum";
	return types.length === 1 && ["boolean", "number", "integer", "string", "array", "object"].includes(types[0]) ? types[0] : "json";
}

// field is one argument: its elements, and how its value is read. The input has no attribute
// "name": it would hide the member of the form of that name. parse returns JSON with the
// digits that were typed: a number of JavaScript would change them.
function field(name, schema, required, whole) {
	const id = "f" + ++serial, type = typeOf(schema), initial = exact(schema.default) ? schema.default : undefined;
	const [minimum, maximum, minLength, maxLength] = ["minimum", "maximum", "minLength", "maxLength"].map((key) => typeof schema[key] === "number" ? schema[key] : undefined);
	const attrs = { id, "data-name": name, "aria-describedby": id + "d " + id + "e", "aria-required": required ? "true" : null };
	let input, parse;
	switch (type) {
	case "enum":
	case "boolean": {
		const values = type === "enum" ? schema.enum : [true, false];
		input = h("select", attrs, required && initial !== undefined ? null : h("option", { value: "" }, "–"), values.map((v, i) => h("option", { value: i, selected: v === initial }, String(v))));
		parse = (text) => JSON.stringify(values[text]);
		break;
	}
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
		const long = maxLength > 200 || /multi|text|content|body|code|query|prompt|message/i.test(name);
		input = long ? h("textarea", { ...attrs, rows: 2, spellcheck: "false" }, initial) : h("input", { ...attrs, type: "text", value: initial, autocomplete: "off", spellcheck: "false" });
		parse = (text) => {
			if (text.length < minLength) fail("at least " + plural(minLength, "character"));
			if (text.length > maxLength) fail("at most " + plural(maxLength, "character"));
			return JSON.stringify(text);
		};
		break;
	}
	default:
		input = h("textarea", { ...attrs, rows: 3, spellcheck: "false", class: "mono", placeholder: type === "array" ? "[…]" : type === "object" ? "{…}" : "JSON" }, initial === undefined ? null : JSON.stringify(initial, null, 1));
		parse = (text) => {
			let value;
			try { value = JSON.parse(text); } catch (e) { fail("not valid JSON: " + e.message, { cause: e }); }
			if (type === "array" && !Array.isArray(value)) fail("not a JSON array");
			if (type === "object" && (typeof value !== "object" || !value || Array.isArray(value))) fail("not a JSON object");
			return text;
		};
	}
	const error = h("p", { class: "wrong", id: id + "e" });
	const word = type === "json" ? "any JSON" : type === "enum" ? "one of " + schema.enum.length : type + (type === "array" || type === "object" ? ", as JSON" : "");
	return {
		whole,
		el: h("div", "field", h("label", { for: id }, name, h("span", "note", " " + word + (required ? ", required" : ""))), input,
			h("p", { class: "note", id: id + "d" }, schema.description, " ", range(schema, minimum, maximum)), error),
		focus: () => input.focus(),
		report: (problem) => {
			error.textContent = problem ?? "";
			if (problem) input.setAttribute("aria-invalid", "true");
			else input.removeAttribute("aria-invalid");
		},
		// read sets the argument, and returns what is wrong with it. An empty optional field
		// leaves the argument out.
		read: (args) => {
			const text = input.value;
			if (text === "") return required ? name + " is required" + (type === "string" ? '; write "" for an empty text' : "") : null;
			try {
				const json = text === '""' && type === "string" ? text : parse(text);
				args.push(whole ? json : JSON.stringify(name) + ":" + json);
			} catch (e) { return name + ": " + e.message; }
			return null;
		},
	};
}

function range(schema, minimum, maximum) {
	const parts = [];
	if (minimum !== undefined) parts.push("from " + minimum);
	if (maximum !== undefined) parts.push("to " + maximum);
	if (schema.format) parts.push("format " + schema.format);
	if (schema.pattern) parts.push("pattern " + schema.pattern);
	return parts.length ? "(" + parts.join(" ") + ")" : "";
}

// shown describes the answer to a call. A result that cannot be shown does not make a call
// that was executed a failed one.
function shown({ error, result, tookNs, text }) {
	room = shownBytes;
	if (error) return failed(error);
	const r = result ?? {}, ok = h("p", null, r.isError ? tell("!", "warn", "tool error") : tell("✓", "good", "ok"), " in " + took(tookNs));
	const json = (v) => block(JSON.stringify(v, null, text.length < 1e5 ? 1 : 0));
	try {
		const parts = [r.content ?? []].flat(), more = parts.length - shownParts;
		return [ok, parts.slice(0, shownParts).map((c) => content(c, json)), more > 0 ? note("… " + plural(more, "part") + " more") : null,
			r.structuredContent === undefined ? null : [h("h4", null, "Structured content"), json(r.structuredContent)],
			h("details", null, h("summary", null, "Result as JSON"), json(r))];
	} catch (e) {
		return [ok, note("The result cannot be shown: " + e.message), block(text)];
	}
}

function content(c, json) {
	if (c?.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(c.mimeType)) return h("img", { src: "data:" + c.mimeType + ";base64," + c.data, alt: "image in the result" });
	const text = c?.type === "text" ? c.text : c?.type === "resource" ? c.resource?.text : null;
	return typeof text === "string" ? block(text) : json(c);
}

// room is how many characters of the result may still be shown.
const shownBytes = 200000, shownParts = 100, shownFields = 200;
let room = 0;

function block(text) {
	if (!text) return note("The text is empty.");
	const first = text.slice(0, Math.max(room, 1000)), more = text.length - first.length;
	room -= first.length;
	return h("pre", { tabindex: 0, label: "result" }, more ? first + "\n… " + plural(more, "character") + " more" : first);
}

function failed(error) {
	return [h("p", "bad", tell(error.outcome === "unknown" ? "?" : "✗", "bad", (error.kind ?? "failed").replaceAll("_", " ")), error.outcome ? " · " + { unknown: "the call may have been executed: the server ended, or gave no answer. Its record is below, under Recent calls", not_sent: "not sent: repeating it is safe", answered: "the server answered" }[error.outcome] : ""),
		block(error.message)];
}
