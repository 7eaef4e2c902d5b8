// A form made from the input schema of a tool, and the result of the call.
import { fill, h } from "./dom.js";
import { plural, tell, took } from "./format.js";

let serial = 0;

// toolForm returns a form that calls a tool. send makes the call.
export function toolForm(tool, send) {
	const schema = tool.definition.inputSchema ?? {};
	const fields = fieldsOf(schema);
	const submit = h("button", { class: "primary" }, "Call " + tool.originalName);
	const cancel = h("button", { type: "button", hidden: true }, "Cancel");
	const result = h("div", { class: "result", role: "status", "aria-live": "polite", tabindex: "-1" });
	const form = h("form", { novalidate: true, "data-keep": tool.name, "aria-label": "Call " + tool.name }, fields.map((f) => f.el),
		fields.length ? null : h("p", { class: "note" }, "This tool takes no arguments."), h("p", { class: "actions" }, submit, cancel), result);
	let running = null;
	cancel.onclick = () => running?.abort();
	form.onsubmit = async (event) => {
		event.preventDefault();
		if (running) return;
		const args = {};
		let first = null;
		for (const f of fields) {
			const problem = f.read(args);
			f.report(problem);
			if (problem) first ??= f;
		}
		if (first) return first.focus();
		running = new AbortController();
		submit.disabled = true;
		cancel.hidden = false;
		fill(result, h("p", { class: "note" }, "Calling…"));
		const whole = fields.length === 1 && fields[0].whole;
		try {
			fill(result, shown(await send({ tool: tool.name, arguments: whole ? args.value : args }, running.signal)));
		} catch (e) {
			fill(result, failed({ message: e.name === "AbortError" ? "you canceled the call; the server may have executed it" : e.message }));
		}
		running = null;
		submit.disabled = false;
		cancel.hidden = true;
	};
	return form;
}

function fieldsOf(schema) {
	const names = Object.keys(schema.properties ?? {});
	if (!names.length) return schema.additionalProperties || schema.anyOf || schema.oneOf || schema.$ref || schema.patternProperties ? [wholeField(schema)] : [];
	const required = new Set(schema.required ?? []);
	names.sort((a, b) => required.has(b) - required.has(a)); // stable
	return names.map((name) => field(name, schema.properties[name] ?? {}, required.has(name)));
}

function wholeField(schema) {
	const f = field("value", { type: "object", description: "All arguments, as a JSON object.", default: schema.default ?? {} }, true);
	f.whole = true;
	return f;
}

function typeOf(schema) {
	const types = [schema.type].flat().filter((t) => t && t !== "null");
	if (Array.isArray(schema.enum) && schema.enum.every((v) => typeof v !== "object")) return "enum";
	return types.length === 1 ? types[0] : "json";
}

// field is one argument: its elements, and how its value is read.
function field(name, schema, required) {
	const id = "f" + ++serial, type = typeOf(schema), initial = schema.default;
	const attrs = { id, name, "aria-describedby": id + "d " + id + "e", "aria-required": required ? "true" : null };
	let input, parse;
	switch (type) {
	case "enum":
	case "boolean": {
		const values = type === "enum" ? schema.enum : [true, false];
		input = h("select", attrs, required && initial !== undefined ? null : h("option", { value: "" }, "–"), values.map((v, i) => h("option", { value: i, selected: v === initial }, String(v))));
		parse = (text) => values[Number(text)];
		break;
	}
	case "number":
	case "integer":
		input = h("input", { ...attrs, type: "text", inputmode: type === "integer" ? "numeric" : "decimal", value: initial });
		parse = (text) => {
			const n = Number(text);
			if (!Number.isFinite(n)) throw new Error("not a number");
			if (type === "integer" && !Number.isInteger(n)) throw new Error("not a whole number");
			if (n < schema.minimum) throw new Error("at least " + schema.minimum);
			if (n > schema.maximum) throw new Error("at most " + schema.maximum);
			return n;
		};
		break;
	case "string": {
		const long = schema.maxLength > 200 || /multi|text|content|body|code|query|prompt|message/i.test(name);
		input = long ? h("textarea", { ...attrs, rows: 2, spellcheck: "false" }, initial) : h("input", { ...attrs, type: "text", value: initial, autocomplete: "off", spellcheck: "false" });
		parse = (text) => {
			if (text.length < schema.minLength) throw new Error("at least " + plural(schema.minLength, "character"));
			if (text.length > schema.maxLength) throw new Error("at most " + plural(schema.maxLength, "character"));
			return text;
		};
		break;
	}
	default:
		input = h("textarea", { ...attrs, rows: 3, spellcheck: "false", class: "mono", placeholder: type === "array" ? "[…]" : type === "object" ? "{…}" : "JSON" }, initial === undefined ? null : JSON.stringify(initial, null, 1));
		parse = (text) => {
			let value;
			try { value = JSON.parse(text); } catch (e) { throw new Error("not valid JSON: " + e.message, { cause: e }); }
			if (type === "array" && !Array.isArray(value)) throw new Error("not a JSON array");
			if (type === "object" && (typeof value !== "object" || !value || Array.isArray(value))) throw new Error("not a JSON object");
			return value;
		};
	}
	const error = h("p", { class: "wrong", id: id + "e" });
	const word = type === "json" ? "any JSON" : type === "enum" ? "one of " + schema.enum.length : type + (type === "array" || type === "object" ? ", as JSON" : "");
	return {
		el: h("div", { class: "field" }, h("label", { for: id }, name, h("span", { class: "note" }, " " + word + (required ? ", required" : ""))), input,
			h("p", { class: "note", id: id + "d" }, [schema.description, range(schema)].filter(Boolean).join(" ")), error),
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
			if (text === '""' && type === "string") {
				args[name] = "";
				return null;
			}
			try { args[name] = parse(text); } catch (e) { return name + ": " + e.message; }
			return null;
		},
	};
}

function range(schema) {
	const parts = [];
	if (schema.minimum !== undefined) parts.push("from " + schema.minimum);
	if (schema.maximum !== undefined) parts.push("to " + schema.maximum);
	if (schema.format) parts.push("format " + schema.format);
	if (schema.pattern) parts.push("pattern " + schema.pattern);
	return parts.length ? "(" + parts.join(" ") + ")" : "";
}

// shown describes the answer to a call.
function shown(answer) {
	if (answer.error) return failed(answer.error);
	const r = answer.result ?? {};
	return [h("p", null, r.isError ? tell("!", "warn", "tool error") : tell("✓", "good", "ok"), " in " + took(answer.tookNs)),
		(r.content ?? []).map(content),
		r.structuredContent === undefined ? null : [h("h4", null, "Structured content"), block(JSON.stringify(r.structuredContent, null, 2))],
		h("details", null, h("summary", null, "Result as JSON"), block(JSON.stringify(r, null, 2)))];
}

function content(c) {
	if (c.type === "text") return block(c.text);
	if (c.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(c.mimeType)) return h("img", { src: "data:" + c.mimeType + ";base64," + c.data, alt: "image in the result" });
	if (c.type === "resource" && c.resource?.text !== undefined) return block(c.resource.text);
	return block(JSON.stringify(c, null, 2));
}

const shownBytes = 200000;

function block(text) {
	if (!text) return h("p", { class: "note" }, "The text is empty.");
	return h("pre", { tabindex: "0", "aria-label": "result" }, text.length > shownBytes ? text.slice(0, shownBytes) + "\n… " + plural(text.length - shownBytes, "character") + " more" : text);
}

function failed(error) {
	return [h("p", { class: "bad" }, tell(error.outcome === "unknown" ? "?" : "✗", "bad", (error.kind ?? "failed").replaceAll("_", " ")), error.outcome ? " · " + { unknown: "outcome unknown: the server may have executed the call", not_sent: "not sent: repeating it is safe", answered: "the server answered" }[error.outcome] : ""),
		block(error.message)];
}
