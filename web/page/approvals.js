// The calls that wait for a decision of a person.
import { fill, h, head, jsonOf, td } from "./dom.js";
import { age, count } from "./format.js";
import { nameOf } from "./servers.js";
import { table } from "./table.js";

// hidden are characters that a reader would not see, or that change how others are seen.
const hidden = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u00a0]/gu;

// visible is JSON text with an escape for each hidden character.
export function visible(json) {
	return json.replace(hidden, (c) => [...Array(c.length).keys()].map((i) => "\\u" + c.charCodeAt(i).toString(16).padStart(4, "0")).join(""));
}

function decide(id, word, of) {
	return h("button", { type: "button", "data-act": word.toLowerCase(), "data-id": id, label: word + " the call of " + of }, word);
}

function row(a, controls) {
	const of = a.server + "/" + a.tool;
	return h("tr", { key: a.id }, h("td", null, nameOf(a.server), h("span", "mono", "/" + a.tool), h("span", "sub", a.rule)), h("td", "who", a.client || "–", a.principal ? h("span", "sub", "principal " + a.principal) : null), h("td", "grow whole", h("span", "mono", visible(jsonOf(a.arguments))), a.inputResponses ? [h("span", "sub", "with the client’s answers to its server"), h("span", "mono", visible(jsonOf(a.inputResponses)))] : null), td(age(a.asked)),
		h("td", null, controls ? h("div", "actions", decide(a.id, "Approve", of), decide(a.id, "Deny", of)) : "mcpvisor approve " + a.id));
}

// showApprovals shows nothing while no call waits.
export function showApprovals(el, open, controls) {
	el.hidden = !open.length;
	if (el.hidden) return void fill(el);
	fill(el, head("Waiting for a decision", count(open.length)), table("approvals", "Waiting for a decision", [["Call", (a) => a.server + "/" + a.tool], ["Client", (a) => a.client ?? a.principal], "Arguments", ["For", (a) => -Date.parse(a.asked)], "Decide"], open, (a) => row(a, controls), "None.", "folds"));
}
