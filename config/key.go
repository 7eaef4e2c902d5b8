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

func keyRow(read func(*entry, *hujson.Value), k configkeys.Key) row { return row{Key: k, read: read} }

// nesting returns the row of a value that may be an object with these keys.
func (r row) nesting(rows []row) row {
	r.nested = rows
	return r
}

// describedBy returns the row with a schema of its own.
func (r row) describedBy(s *jsonSchema) row {
	r.schema = s
	return r
}

// objectRow makes the row of an object with these keys. The example of the key shows one.
func objectRow(rows []row, k configkeys.Key) row {
	k.Type = "object"
	return row{Key: k, nested: rows, read: func(e *entry, v *hujson.Value) { e.readObject(v, k.Example, rows) }}
}

// The functions below make a row whose value goes into the field that an argument returns.

func textRow(field func(*entry) *string, k configkeys.Key) row {
	return keyRow(func(e *entry, v *hujson.Value) { e.readText(v, field(e)) }, k)
}

func pathRow(field func(*entry) *string, k configkeys.Key) row {
	k.Type = "path"
	return keyRow(func(e *entry, v *hujson.Value) { *field(e) = e.readFilePath(v) }, k)
}

func listRow(field func(*entry) *[]string, k configkeys.Key) row {
	k.Type = "list of strings"
	return keyRow(func(e *entry, v *hujson.Value) { *field(e) = e.readList(v) }, k)
}

func mapRow(field func(*entry) *map[string]string, k configkeys.Key) row {
	k.Type = "object of strings"
	return keyRow(func(e *entry, v *hujson.Value) { *field(e) = e.readMap(v) }, k)
}

// choiceRow makes the row of one of several texts.
func choiceRow[T ~string](field func(*entry) *T, k configkeys.Key, choices ...T) row {
	k.Type = orTexts(choices)
	schema := oneOfTexts(choices...)
	return keyRow(func(e *entry, v *hujson.Value) { readChoice(e, v, field(e), choices...) }, k).describedBy(&schema)
}

func boolRow(field func(*entry) *bool, k configkeys.Key) row {
	k.Type = "boolean"
	return keyRow(func(e *entry, v *hujson.Value) { e.readBool(v, field(e)) }, k)
}

func countRow(field func(*entry) *int, k configkeys.Key) row {
	k.Type = "number"
	return keyRow(func(e *entry, v *hujson.Value) { e.readCount(v, field(e)) }, k)
}

func durationRow(field func(*entry) *time.Duration, k configkeys.Key) row {
	k.Type = "duration"
	return keyRow(func(e *entry, v *hujson.Value) { e.readDuration(v, field(e)) }, k)
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
