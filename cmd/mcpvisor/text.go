package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/mcpvisor/mcpvisor/internal/display"
)

// printJSON prints a value as indented JSON.
func printJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return printRaw(w, data)
}

// printIndented prints JSON text as printJSON prints its value.
func printIndented(w io.Writer, data []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		return err
	}
	return printRaw(w, indented.Bytes())
}

// printRaw prints JSON text as it is. It escapes characters that would change what
// a terminal shows.
func printRaw(w io.Writer, data []byte) error {
	_, err := fmt.Fprintln(w, display.JSON(string(data)))
	return err
}
