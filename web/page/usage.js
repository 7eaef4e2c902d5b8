// What servers use: processor time, memory, calls a minute and the share that failed, with
// small lines over the last minutes.
import { h } from "./dom.js";
import { count } from "./format.js";

const kept = 60; // samples of a server: five minutes
const fewest = 4; // fewer would be a dot

// takeUsage adds the samples of an answer to those that are kept. It returns the number of the
// last one. Servers without a sample are forgotten.
export function takeUsage(all, answer) {
	const known = new Set(answer.servers.map((u) => u.server));
	for (const name of all.keys()) if (!known.has(name)) all.delete(name);
	for (const u of answer.servers) {
		const samples = (all.get(u.server)?.samples ?? []).concat(u.samples ?? []).slice(-kept);
		all.set(u.server, { ...u, samples });
	}
	return answer.seq;
}

const megabyte = 1 << 20;

export function cpu(share) { return share === undefined ? null : count(Math.round(share * 1000) / 10) + " % CPU"; }
export function memory(bytes) { return bytes === undefined ? null : bytes < 1024 * megabyte ? count(Math.round(bytes / megabyte)) + " MB" : count(bytes / megabyte / 1024) + " GB"; }
export function rate(perMinute) { return perMinute ? count(perMinute) + " calls a minute" : null; }
export function failed(share) { return share ? count(share * 100) + " % failed" : null; }

// sparkline draws values, the last at the right. The text beside it says the last one.
function sparkline(values) {
	const known = values.filter((v) => v !== undefined);
	if (known.length < fewest) return null;
	const most = Math.max(...known, 1e-9), step = 100 / (kept - 1), from = kept - values.length;
	let d = "", pen = "M";
	values.forEach((v, i) => {
		if (v === undefined) pen = "M";
		else {
			d += pen + ((from + i) * step).toFixed(1) + " " + (15 - (v / most) * 14).toFixed(1);
			pen = "L";
		}
	});
	return h("svg", { class: "spark", viewBox: "0 0 100 16", preserveAspectRatio: "none", "aria-hidden": "true" }, h("path", { d }));
}

const memoryOf = (s) => s.memoryBytes;
const cpuOf = (s) => s.cpu;
const callsOf = (s) => s.overNs ? (s.calls ?? 0) / s.overNs : undefined;
const failedOf = (s) => s.overNs ? (s.failed ?? 0) / s.overNs : undefined;

// load is the cell of a row.
export function load(u) {
	if (!u) return "–";
	const words = [cpu(u.cpu), memory(u.memoryBytes)].filter(Boolean);
	return [words.length ? words.join(", ") : rate(u.callsPerMinute) ?? "–", sparkline(u.samples.map(words.length ? cpuOf : callsOf))];
}

// uses are the facts of one server.
export function uses(u) {
	if (!u) return [];
	const fact = (name, text, of) => text ? [name, [text, sparkline(u.samples.map(of))]] : null;
	return [fact("Processor", cpu(u.cpu), cpuOf), fact("Memory", memory(u.memoryBytes), memoryOf),
		fact("Rate", rate(u.callsPerMinute), callsOf), fact("Failures", failed(u.errorShare), failedOf)].filter(Boolean);
}

// changed is a text that differs when what is shown of u does.
export function changed(u) { return u ? [u.samples.at(-1)?.seq, u.cpu, u.memoryBytes, u.callsPerMinute, u.errorShare].join() : ""; }
