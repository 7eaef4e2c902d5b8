// A small server written with litemcp. On stdio, or with PORT over HTTP+SSE.
import { LiteMCP } from "litemcp";
import { z } from "zod";

const server = new LiteMCP("lite", "1.0.0");
server.addTool({
  name: "echo",
  description: "Returns the text",
  parameters: z.object({ text: z.string() }),
  execute: async ({ text }) => text,
});
await server.start(process.env.PORT ? { transportType: "sse", sse: { endpoint: "/sse", port: Number(process.env.PORT) } } : undefined);
