// Package headerparams handles the arguments of tools that travel in HTTP headers (MCP
// 2026-07-28, Streamable HTTP): which tools have them, whether their schemas are valid,
// and how a value is encoded.
package headerparams
