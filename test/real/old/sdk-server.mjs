// A small server on an early TypeScript SDK: "node sdk-server.mjs 0.6". On stdio, or
// with PORT over HTTP+SSE.
import http from "node:http";

const sdk = `sdk-${process.argv[2]}`;
const { Server } = await import(`${sdk}/server/index.js`);
const { CallToolRequestSchema, ListToolsRequestSchema } = await import(`${sdk}/types.js`);

function makeServer() {
  const server = new Server({ name: sdk, version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: [{ name: "echo", description: "Returns the text", inputSchema: { type: "object", properties: { text: { type: "string" } } } }],
  }));
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => ({
    content: [{ type: "text", text: params.arguments.text }],
  }));
  return server;
}

if (process.env.PORT) {
  const { SSEServerTransport } = await import(`${sdk}/server/sse.js`);
  const open = new Map();
  http.createServer(async (req, res) => {
    const url = new URL(req.url, "http://localhost");
    if (req.method === "GET" && url.pathname === "/sse") {
      const transport = new SSEServerTransport("/message", res);
      const server = makeServer();
      await server.connect(transport);
      open.set(transport.sessionId, transport);
      res.on("close", () => open.delete(transport.sessionId));
    } else if (req.method === "POST" && open.has(url.searchParams.get("sessionId"))) {
      await open.get(url.searchParams.get("sessionId")).handlePostMessage(req, res);
    } else {
      res.writeHead(404).end("not found");
    }
  }).listen(Number(process.env.PORT), "127.0.0.1");
} else {
  const { StdioServerTransport } = await import(`${sdk}/server/stdio.js`);
  await makeServer().connect(new StdioServerTransport());
}
