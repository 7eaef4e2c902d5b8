// A small server written with fastmcp, as its users write them.
import { FastMCP } from "fastmcp";
import { z } from "zod";

const server = new FastMCP({ name: "sums", version: "1.0.0" });

server.addTool({
  name: "add",
  description: "Adds two numbers",
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => String(a + b),
});

if (process.env.PORT) {
  server.start({ transportType: "httpStream", httpStream: { port: Number(process.env.PORT) } });
} else {
  server.start({ transportType: "stdio" });
}
