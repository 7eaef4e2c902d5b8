// Package streamable keeps sessions with servers over Streamable HTTP (2025-03-26 and
// later) and over the deprecated HTTP+SSE (2024-11-05).
package streamable
