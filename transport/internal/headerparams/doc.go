// Package headerparams handles the tool arguments that a client repeats in HTTP headers
// (MCP 2026-07-28, Streamable HTTP). A tool marks such an argument in its input schema
// with "x-mcp-header".
//
// [Table] remembers which tools have marked arguments and adds their headers to a call.
// [Check] reports whether the marks of a schema are valid. [Value] encodes a value for a
// header.
package headerparams
