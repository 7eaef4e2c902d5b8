package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
)

// table is one table of the report, in aligned Markdown.
type table struct{ w *tabwriter.Writer }

func newTable(title string, columns ...string) *table {
	fmt.Printf("\n## %s\n\n", title)
	t := &table{tabwriter.NewWriter(os.Stdout, 1, 0, 1, ' ', 0)}
	t.row(columns...)
	rule := make([]string, len(columns))
	for i := range rule {
		rule[i] = "---"
	}
	t.row(rule...)
	return t
}

func (t *table) row(cells ...string) {
	_, _ = fmt.Fprintln(t.w, "|\t"+strings.Join(cells, "\t|\t")+"\t|")
}

func (t *table) end() error { return t.w.Flush() }
