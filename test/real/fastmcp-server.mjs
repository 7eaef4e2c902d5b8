// A small server written with fastmcp. With IDLE_MS it exits with 0 when it has had no call of add for so long.
import { setTimeout as pause } from "node:timers/promises";
import { FastMCP } from "fastmcp";
import { z } from "zod";

const server = new FastMCP({ name: "sums", version: "1.0.0" });

let idle;
const rest = () => {
  clearTimeout(idle);
  if (process.env.IDLE_MS) idle = globalThis.setTimeout(() => process.exit(0), Number(process.env.IDLE_MS));
};
server.on("connect", rest);

server.addTool({
  name: "add",
  description: "Adds two numbers",
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => {
    rest();
    return String(a + b);
  },
});

server.addTool({
  name: "count",
  description: "Counts to a number, twenty a second",
  parameters: z.object({ to: z.number() }),
  execute: async ({ to }, { reportProgress }) => {
    for (let n = 1; n <= to; n++) {
      await reportProgress({ progress: n, total: to, message: `at ${n}` });
      await pause(50);
    }
    return `counted to ${to}`;
  },
});

if (process.env.PORT) {
  server.start({ transportType: "httpStream", httpStream: { port: Number(process.env.PORT) } });
} else {
  server.start({ transportType: "stdio" });
}
