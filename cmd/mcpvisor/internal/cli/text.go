package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/mcpvisor/mcpvisor/cmd/mcpvisor/internal/plaintext"
)

// PrintJSON prints a value as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return PrintRaw(w, data)
}

// PrintIndented prints JSON text as PrintJSON prints its value.
func PrintIndented(w io.Writer, data []byte) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "  "); err != nil {
		return err
	}
	return PrintRaw(w, indented.Bytes())
}

// PrintRaw prints JSON text as it is. It escapes characters that would change what
// a terminal shows.
func PrintRaw(w io.Writer, data []byte) error {
	_, err := fmt.Fprintln(w, plaintext.JSON(string(data)))
	return err
}
