package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailscale/hujson"

	"github.com/mcpvisor/mcpvisor/internal/configkeys"
)

func init() { configkeys.All, configkeys.Terms, configkeys.Schema = keys, keyTerms, renderSchema } //nolint:gochecknoinits // see package configkeys

// keys is configkeys.All.
func keys() []configkeys.Key { return flatten(nil, "", entryRows) }

// row is one row of a key table: a key, and what reads its value. Everything
// about a key is in its row.
type row struct {
	configkeys.Key // Name is relative to the object that the table describes

	// read puts the value into the entry, or reports what is wrong with it. The
	// value is not null.
	read func(e *entry, v *hujson.Value)
	// schema describes the values in the schema, where Type does not say it; nil otherwise.
	schema *jsonSchema
	// nested are the keys of the value, where that is an object.
	nested []row
}

func flatten(keys []configkeys.Key, prefix string, rows []row) []configkeys.Key {
	for _, r := range rows {
		r.Name = prefix + r.Name
		keys = append(keys, r.Key)
		keys = flatten(keys, r.Name+".", r.nested)
	}
	return keys
}

// findRow returns the row of a key or of one of its aliases, or nil.
func findRow(rows []row, key string) *row {
	for i := range rows {
		if rows[i].Name == key || slices.Contains(rows[i].Aliases, key) {
			return &rows[i]
		}
	}
	return nil
}

// rowNames lists the keys of a table, aliases included.
func rowNames(rows []row) (names []string) {
	for _, r := range rows {
		names = append(append(names, r.Name), r.Aliases...)
	}
	return names
}

// The functions below make a row whose value goes into the field that an argument returns.

func textRow(field func(*entry) *string, k configkeys.Key) row {
	return row{Key: k, read: func(e *entry, v *hujson.Value) { e.readText(v, field(e)) }}
}

func boolRow(field func(*entry) *bool, k configkeys.Key) row {
	k.Type = "boolean"
	return row{Key: k, read: func(e *entry, v *hujson.Value) { e.readBool(v, field(e)) }}
}

func countRow(field func(*entry) *int, k configkeys.Key) row {
	k.Type = "number"
	return row{Key: k, read: func(e *entry, v *hujson.Value) { e.readCount(v, field(e)) }}
}

func durationRow(field func(*entry) *time.Duration, k configkeys.Key) row {
	k.Type = "duration"
	return row{Key: k, read: func(e *entry, v *hujson.Value) { e.readDuration(v, field(e)) }}
}

// The functions below write defaults as the documentation shows them.

// shortDuration writes a duration without parts that are zero: 1m, not 1m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// mebibytes writes a number of bytes that is a multiple of 1 MiB.
func mebibytes(n int) string { return fmt.Sprintf("%d MiB", n>>20) }

// thousands writes a number with a comma before each group of three digits.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
