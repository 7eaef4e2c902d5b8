package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// plain makes a server's text fit for a terminal: valid UTF-8 and no control
// characters but line breaks and tabs, so that no escape sequence of a
// server's reaches it.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && isControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// line is plain in one line, cut to a length.
func line(s string, most int) string {
	s = strings.Join(strings.Fields(plain(s)), " ")
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return strings.TrimSpace(string([]rune(s)[:most-1])) + "…"
}

func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 }

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return printRaw(w, data)
}

// printRaw prints JSON text as it is, but for control characters, which are
// only allowed within its strings and are escaped there.
func printRaw(w io.Writer, data []byte) error {
	var b strings.Builder
	for _, r := range string(data) {
		if r != '\n' && isControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
			continue
		}
		b.WriteRune(r)
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}
