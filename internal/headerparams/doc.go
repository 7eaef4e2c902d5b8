// Package headerparams handles the tool arguments that a client repeats in HTTP headers
// (MCP 2026-07-28, Streamable HTTP). A tool marks such an argument in its input schema
// with "x-mcp-header".
//
// [Table] holds which tools have marked arguments and adds their headers to a call, or compares them.
// [Check] reports whether the marks of a schema can be used. [Value] encodes a value for a
// header. What a tool may mark, what the marks keep in memory, and what the headers of a
// call take have bounds.
package headerparams
