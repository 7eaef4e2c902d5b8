// A small server written with fastmcp.
import { setTimeout as pause } from "node:timers/promises";
import { FastMCP } from "fastmcp";
import { z } from "zod";

const server = new FastMCP({ name: "sums", version: "1.0.0" });

server.addTool({
  name: "add",
  description: "Adds two numbers",
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => String(a + b),
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
