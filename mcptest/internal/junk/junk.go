// Package junk holds lines that MCP servers print on stdout although they are not
// JSON-RPC messages.
package junk

// Kinds are such lines, each of another kind: a banner, a byte order mark, colours,
// a blank line, JSON that is not a message, a log line.
var Kinds = []string{
	"example-server v1.0 listening on stdio",
	"\xef\xbb\xbfwith a byte order mark",
	"\x1b[32m✔ ready\x1b[0m",
	"",
	"42",
	`{"level":30,"time":1700000000000,"msg":"started"}`,
	"null",
	`"text"`,
	"[]",
	"DEBUG {unbalanced",
}

// Lines returns count lines with line feeds: text each time, or the Kinds in turn if
// text is empty.
func Lines(count int, text string) []byte {
	var b []byte
	for i := range count {
		line := text
		if text == "" {
			line = Kinds[i%len(Kinds)]
		}
		b = append(append(b, line...), '\n')
	}
	return b
}
