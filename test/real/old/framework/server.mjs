// A small server written with mcp-framework, which finds its tools in a directory.
// On stdio, or with PORT over HTTP+SSE.
import { MCPServer } from "mcp-framework";

const port = Number(process.env.PORT);
const server = new MCPServer({
  name: "framework",
  version: "1.0.0",
  basePath: import.meta.dirname,
  transport: port ? { type: "sse", options: { port, endpoint: "/sse", messageEndpoint: "/messages" } } : { type: "stdio" },
});
await server.start();
