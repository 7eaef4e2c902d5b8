// Package tools holds the default tools of the fixture server. A tool reaches the
// server only through [Actions] and [Streams], so the same tools run over a pair of
// streams and over HTTP. Start reading at call.go; table.go lists the tools.
package tools
