package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// maxCellLength is the longest cell of a table, in characters.
const maxCellLength = 100

// table prints rows with aligned columns.
func (inv *invocation) table(out io.Writer, header string, rows [][]any) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, oneLine(fmt.Sprint(cell), maxCellLength))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
