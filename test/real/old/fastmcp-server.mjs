// A small server written with fastmcp 1. On stdio, or with PORT over HTTP+SSE.
import { FastMCP } from "fastmcp";
import { z } from "zod";

const server = new FastMCP({ name: "fast", version: "1.0.0" });
server.addTool({
  name: "echo",
  description: "Returns the text",
  parameters: z.object({ text: z.string() }),
  execute: async ({ text }) => text,
});
await server.start(process.env.PORT ? { transportType: "sse", sse: { endpoint: "/sse", port: Number(process.env.PORT) } } : { transportType: "stdio" });
