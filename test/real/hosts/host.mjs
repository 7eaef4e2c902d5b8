// A host that makes calls in a storm, with the TypeScript SDK 1.x or 2:
//
//   host.mjs 1|2 http URL
//   host.mjs 1|2 stdio COMMAND ARGUMENT…
//
// It writes a line {"tools"} when it has listed the tools, then calls fixture__count until stdin ends,
// and writes a line {"key", "result"} or {"key", "error"} for each call. Its last line is
// {"changes", "tools"}: how many times it was told that the list has changed, and the list at the end.
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as Stdio1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HTTP1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { Client as Client2, StreamableHTTPClientTransport as HTTP2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";

const [sdk, kind, ...target] = process.argv.slice(2);
const [HTTP, Stdio] = sdk === "1" ? [HTTP1, Stdio1] : [HTTP2, Stdio2];
const transport = kind === "http"
  ? new HTTP(new URL(target[0]))
  : new Stdio({ command: target[0], args: target.slice(1), env: process.env, stderr: "inherit" });

let changes = 0;
const info = { name: `host-${sdk}`, version: "1" };
let client;
if (sdk === "1") {
  client = new Client1(info);
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => { changes++; });
} else {
  client = new Client2(info, {
    versionNegotiation: { mode: sdk === "2" ? "auto" : "legacy" },
    listChanged: { tools: { autoRefresh: false, onChanged: () => { changes++; } } },
  });
}
client.onerror = (err) => console.error("onerror:", err.message);
await client.connect(transport);

const say = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const list = async () => JSON.stringify((await client.listTools()).tools);
say({ tools: await list() });

let ended = false;
process.stdin.on("end", () => { ended = true; }).resume();
for (let n = 0; !ended; n++) {
  const key = `${sdk}-${kind}-${n}`;
  try {
    say({ key, result: await client.callTool({ name: "fixture__count", arguments: { key } }) });
  } catch (err) {
    say({ key, error: String(err.message) });
  }
}
say({ changes, tools: await list() });
await client.close();
