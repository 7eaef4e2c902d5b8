package config

import (
	"cmp"
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
	i := slices.IndexFunc(rows, func(r row) bool { return r.Name == key || slices.Contains(r.Aliases, key) })
	if i < 0 {
		return nil
	}
	return &rows[i]
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

// fieldRow returns a function that makes rows of a type. read reads a value into the field that the function is given. An empty
// type is that of the key.
func fieldRow[T any](kind string, read func(*entry, *hujson.Value, *T)) func(field func(*entry) *T, k configkeys.Key) row {
	return func(field func(*entry) *T, k configkeys.Key) row {
		k.Type = cmp.Or(kind, k.Type)
		return keyRow(func(e *entry, v *hujson.Value) { read(e, v, field(e)) }, k)
	}
}

var (
	textRow      = fieldRow("", (*entry).readText)
	pathRow      = fieldRow("path", func(e *entry, v *hujson.Value, into *string) { *into = e.readFilePath(v) })
	listRow      = fieldRow("list of strings", func(e *entry, v *hujson.Value, into *[]string) { *into = e.readList(v) })
	mapRow       = fieldRow("object of strings", func(e *entry, v *hujson.Value, into *map[string]string) { *into = e.readMap(v) })
	boolRow      = fieldRow("boolean", (*entry).readBool)
	countRow     = fieldRow("number", (*entry).readCount)
	mebibytesRow = fieldRow("number", (*entry).readMiB)
	durationRow  = fieldRow("duration", (*entry).readDuration)
)

// choiceRow makes the row of one of several texts.
func choiceRow[T ~string](field func(*entry) *T, k configkeys.Key, choices ...T) row {
	schema := oneOfTexts(choices...)
	return fieldRow(orTexts(choices), func(e *entry, v *hujson.Value, into *T) { readChoice(e, v, into, choices...) })(field, k).describedBy(&schema)
}

// orDefaultRow is choiceRow for a field whose zero value the first of the texts means.
func orDefaultRow[T ~string](field func(*entry) *T, k configkeys.Key, zero T, others ...T) row {
	r := choiceRow(field, k, append([]T{zero}, others...)...)
	read := r.read
	r.read = func(e *entry, v *hujson.Value) {
		if read(e, v); *field(e) == zero {
			*field(e) = ""
		}
	}
	return r
}

// The functions below write defaults as the documentation shows them.

// shortDuration writes a duration without parts that are zero: 1m, not 1m0s.
func shortDuration(d time.Duration) string {
	return strings.Replace(strings.Replace(d.String(), "m0s", "m", 1), "h0m", "h", 1)
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
