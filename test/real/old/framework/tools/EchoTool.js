import { MCPTool } from "mcp-framework";
import { z } from "zod";

export default class EchoTool extends MCPTool {
  name = "echo";
  description = "Returns the text";
  schema = { text: { type: z.string(), description: "what to say" } };

  async execute({ text }) {
    return text;
  }
}
