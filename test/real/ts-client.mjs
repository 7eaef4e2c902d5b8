// The client of the TypeScript SDK, for the benchmarks. It connects to the server that
// its arguments name, and measures calls: each line on stdin is
// {"callers", "ms", "tool", "arg", "size", "reply"}, each line on stdout
// {"calls", "units", "seconds", "cpuMicros"} or {"error"}.
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [kind, ...target] = process.argv.slice(2);
const transport = kind === "http"
  ? new StreamableHTTPClientTransport(new URL(target[0]))
  : new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: "ignore" });
const client = new Client({ name: "bench", version: "1" });
await client.connect(transport);
console.log("{}");

async function once(q, caller, n) {
  const text = `c${caller}-${n}`;
  const args = q.size ? { size: q.size } : { [q.arg]: text };
  const res = await client.callTool({ name: q.tool, arguments: args });
  const got = res.content[0].text;
  if (q.size ? got.length !== q.size : got !== (q.reply || "%s").replace("%s", text)) {
    throw new Error(`wrong answer: ${got.slice(0, 60)}`);
  }
}

async function measure(q) {
  const cpu = process.cpuUsage(), start = performance.now(), end = start + q.ms;
  let calls = 0;
  await Promise.all(Array.from({ length: q.callers }, async (_, caller) => {
    for (let n = 0; n === 0 || performance.now() < end; n++) {
      await once(q, caller, n);
      calls++;
    }
  }));
  const seconds = (performance.now() - start) / 1000, used = process.cpuUsage(cpu);
  return { calls, units: q.size ? calls * q.size / 1e6 : calls, seconds, cpuMicros: (used.user + used.system) / calls };
}

for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify(await measure(JSON.parse(line))));
  } catch (err) {
    console.log(JSON.stringify({ error: String(err) }));
  }
}
await client.close();
process.exit(0);
