// A form made from the input schema of a tool, and the result of the call.
import { visible } from "./approvals.js";
import { fill, h, jsonOf, note } from "./dom.js";
import { rootField } from "./fields.js";
import { plural, tell, took } from "./format.js";

// maxLine is how many bytes a copied line may have: Linux allows 128 KiB for an argument. Of keptTools tools the last arguments are kept.
const maxLine = 100000, keptTools = 50;
const kept = new Map(); // by tool: what was typed for its last call, without secrets
const calling = new Map(); // by tool: its form, while its call runs
let serial = 0, last = {};

// toolForm returns a form that calls a tool. send makes the call, and origin is the file that configures the server; it
// may be empty. The form of a tool that has not changed stays; an empty one holds its place.
export function toolForm(tool, send, origin) {
	const schema = tool.definition.inputSchema ?? {};
	const hints = tool.definition.annotations ?? {};
	const text = tool.name + jsonOf([schema, hints, origin]);
	const own = calling.get(tool.name) ?? (last.text === text ? last : null);
	if (own?.form.isConnected) return h("form", { key: own.key, "data-keep": own.key });
	if (calling.has(tool.name)) return (last = own).form; // its call can still be canceled
	const key = ++serial, root = rootField(schema);
	const submit = h("button", "primary");
	let asked;
	const askAgain = () => {
		asked = hints.readOnlyHint === true;
		fill(submit, "Call " + tool.originalName);
	};
	askAgain();
	const cancel = h("button", { type: "button", hidden: true }, "Cancel"), before = kept.get(tool.name);
	const reuse = before ? h("button", { type: "button" }, "Use the last arguments") : null;
	const again = last.tool === tool.name ? last : null; // its schema has changed
	const result = again?.result ?? h("div", { class: "result", role: "status", "aria-live": "polite", tabindex: -1 });
	const read = () => {
		const wrong = [], json = root.json(wrong);
		wrong[0]?.focus();
		return wrong.length ? null : json;
	};
	const body = (args) => '{"tool":' + JSON.stringify(tool.name) + ',"arguments":' + args + "}";
	const copied = h("div", { class: "copied", role: "status" }), secret = () => [...form.querySelectorAll("[data-secret]")].some((input) => input.value) ? "It holds a secret. " : "";
	const copies = [
		origin && visible(tool.name) === tool.name ? copyButton("command", read, (args) => "mcpvisor call " + quote(tool.name) + " " + asWords(args, root), copied, secret) : null,
		copyButton("curl", read, (args) => 'curl -sS --fail-with-body -H "Authorization: Bearer $TOKEN" ' + quote(new URL("api/call", document.baseURI).href) + " --json " + quote(visible(body(args))), copied, () => secret() + "TOKEN is the token of this page, if it has one."),
	];
	const form = h("form", { novalidate: true, key, "data-keep": key, label: "Call " + tool.name }, root.el,
		root.empty ? note("This tool takes no arguments.") : null, h("p", "actions", submit, cancel, reuse, copies), copied, result);
	let running = null;
	cancel.onclick = () => running?.abort();
	form.oninput = askAgain;
	if (reuse) reuse.onclick = () => { root.load(before); askAgain(); };
	form.onsubmit = async (event) => {
		event.preventDefault();
		if (running) return;
		const args = read();
		if (args === null) return;
		if (!asked) {
			asked = true;
			fill(submit, "Yes, call " + tool.originalName);
			fill(result, h("p", null, tell("▲", "warn", hints.destructiveHint === false ? "This may change something." : "This may change or delete something."), " Call it?"));
			return submit.focus();
		}
		askAgain();
		kept.delete(tool.name);
		if (!root.empty) kept.set(tool.name, root.save());
		if (kept.size > keptTools) kept.delete(kept.keys().next().value);
		running = new AbortController();
		calling.set(tool.name, made);
		submit.disabled = true;
		cancel.hidden = false;
		fill(result, note("Calling…"));
		let answer;
		try {
			answer = await send(body(args), running.signal);
		} catch (e) {
			answer = { error: { outcome: "unknown", message: e.name === "AbortError" ? "you canceled the call; the server may have executed it" : e.message } };
		}
		fill(result, shown(answer));
		running = null;
		calling.delete(tool.name);
		submit.disabled = false;
		cancel.hidden = true;
	};
	if (again) root.load(again.root.save());
	const made = { text, key, form, result, root, tool: tool.name };
	last = made;
	return form;
}

// asWords are arguments as words of mcpvisor call, or as JSON where words cannot say the same: hidden characters, names
// that are no words, or flags, empty texts, objects and lists.
function asWords(json, root) {
	const words = /\\|[[{]\s*[\]}]/.test(json) ? [] : root.words();
	return words.length && words.every((w) => /^\w[\w-]*(\.[\w-]+|\[\d+\])*:?=[^@]/.test(w)) ? words.map(quote).join(" ") : quote(json);
}

// copyButton shows, and copies, a line for a shell that makes the same call. args returns the arguments, or null if
// some are wrong.
function copyButton(word, args, line, el, hint) {
	const button = h("button", { type: "button" }, "Copy as " + word);
	button.onclick = async () => {
		const json = args();
		if (json === null) return;
		const text = line(visible(json.replace(/[\t\n\r]/g, " ")));
		if (new TextEncoder().encode(text).length > maxLine) return fill(el, note("The arguments are too long for a command line."));
		const shown = h("pre", { tabindex: 0, label: "Line for a shell" }, text), done = h("p", "note");
		el.replaceChildren(shown, done);
		done.textContent = (await copyText(shown) ? "Copied. " : "The browser does not let the page copy. The line is selected: press Ctrl+C. ") + hint();
	};
	return button;
}

// copyText copies the text of an element. Without https the browser lets only the reader copy it.
export async function copyText(el) {
	try {
		await navigator.clipboard.writeText(el.textContent);
		return true;
	} catch {
		getSelection().selectAllChildren(el);
		return false;
	}
}

// quote makes one word of a text, for a POSIX shell.
export function quote(text) { return /^[\w@%+:,./-][\w@%+:,./=-]*$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'"; }

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
const shownBytes = 200000, shownParts = 100;
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
